#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "protocol/training.hpp"
#include "runtime/actor.hpp"

namespace weir::worker {

/// What the actors of a worker process are made from.
struct ActorSetting {
  runtime::ActorSystem& system;
  runtime::ActorRef<protocol::Coordinator> coordinator;  ///< the head's
};

/// The types of actors that a worker process can host; they are listed in main.
class ActorTypes {
 public:
  using Make = std::function<Result<std::uint64_t>(const ActorSetting&, const std::string& name)>;

  /// `make` spawns an actor of that name and returns its id. Adding a type twice is a bug of the caller.
  ActorTypes& add(std::string type, Make make);

  /// Makes an actor and returns its id. Fails with: not_found (no such type), and the errors of the maker.
  Result<std::uint64_t> create(const std::string& type, const ActorSetting& setting, const std::string& name) const;

 private:
  std::map<std::string, Make> types_;
};

/// The actor "worker" of each worker process: creates the others.
class WorkerActor final : public runtime::Actor<protocol::Worker> {
 public:
  WorkerActor(ActorTypes types, runtime::ActorRef<protocol::Coordinator> coordinator)
      : types_(std::move(types)), coordinator_(std::move(coordinator)) {}

  net::awaitable<Result<std::uint64_t>> create(std::string type, std::string name) override;

 private:
  ActorTypes types_;
  runtime::ActorRef<protocol::Coordinator> coordinator_;
  std::map<std::pair<std::string, std::string>, std::uint64_t> created_;  ///< ids by type and name
};

}  // namespace weir::worker
