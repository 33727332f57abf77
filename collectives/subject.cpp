#include "collectives/subject.hpp"

namespace weir::collectives {

std::string to_string(const Subject& subject) {
  return "bucket " + std::to_string(subject.bucket) + " of version " + std::to_string(subject.version) + ", part " +
         std::to_string(subject.part);
}

}  // namespace weir::collectives
