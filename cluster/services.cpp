#include "cluster/services.hpp"

namespace weir::cluster {

std::string Services::new_id() {
  constexpr std::string_view digits = "0123456789abcdefghjkmnpqrstvwxyz";  // Crockford's base 32
  auto milliseconds = static_cast<std::uint64_t>(now().time_since_epoch().count());
  std::string id(26, '0');
  for (int i = 9; i >= 0; --i, milliseconds >>= 5) id[static_cast<std::size_t>(i)] = digits[milliseconds & 31];
  for (std::size_t i = 10; i < id.size(); ++i) id[i] = digits[random() & 31];
  return id;
}

change::Publish job_item(const JobRecord& job, StreamKind kind) { return {kind, job.id, to_text(to_json(job))}; }

}  // namespace weir::cluster
