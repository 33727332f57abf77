#include "worker/worker_actor.hpp"

#include <utility>

#include "base/ensure.hpp"
#include "base/errc.hpp"

namespace weir::worker {

ActorTypes& ActorTypes::add(std::string type, Make make) {
  ensure(types_.emplace(std::move(type), std::move(make)).second, "an actor type is listed twice");
  return *this;
}

Result<std::uint64_t> ActorTypes::create(const std::string& type, const ActorSetting& setting,
                                         const std::string& name) const {
  const auto found = types_.find(type);
  if (found != types_.end()) return found->second(setting, name);
  std::string known;
  for (const auto& [other, make] : types_) known += " " + other;
  return Error{Errc::not_found, "this worker has no actor type '" + type + "', it has" + known};
}

net::awaitable<Result<std::uint64_t>> WorkerActor::create(std::string type, std::string name) {
  if (const auto known = created_.find({type, name}); known != created_.end()) co_return known->second;
  auto created = types_.create(type, {system(), coordinator_}, name);
  if (created) created_[{std::move(type), std::move(name)}] = *created;
  co_return created;
}

}  // namespace weir::worker
