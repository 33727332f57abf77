#include "collectives/communicator.hpp"

namespace weir::collectives {

std::string to_string(const Subject& subject) {
  return "bucket " + std::to_string(subject.bucket) + " of version " + std::to_string(subject.version) + ", part " +
         std::to_string(subject.part);
}

Traffic Communicator::traffic() const {
  Traffic all;
  for (std::uint32_t other = 0; other < size(); ++other) all += traffic_with(other);
  return all;
}

}  // namespace weir::collectives
