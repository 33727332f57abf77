#include "actors/parameter_server.hpp"

#include <memory>
#include <string>
#include <utility>

#include "base/errc.hpp"
#include "training/servers/server.hpp"

namespace weir::actors {
namespace {

using training::servers::Server;

class Serving final : public Role {
 public:
  static Result<std::unique_ptr<Role>> make(const protocol::JobSpec& spec, const protocol::Assignment& assignment) {
    if (assignment.role != protocol::Role::server) {
      return Error{Errc::invalid_argument,
                   "a parameter server does not take the role " + std::string(to_string(assignment.role))};
    }
    auto server = Server::make(spec, {.index = assignment.rank - assignment.world,
                                      .workers = assignment.world,
                                      .servers = assignment.members - assignment.world});
    if (!server) return server.error();
    return std::make_unique<Serving>(std::move(*server));
  }
  explicit Serving(std::unique_ptr<Server> server) : server_(std::move(server)) {}

  Result<void> restore(const Segment& checkpoint) override { return server_->restore(checkpoint); }
  Result<void> join(collectives::Fabric& group) override { return server_->join(group); }
  Result<bool> run(training::Progress& progress) override { return server_->serve(progress); }

  std::uint64_t step() const override { return server_->step(); }
  std::uint64_t steps_total() const override { return server_->length.steps_total; }
  std::uint64_t parameters() const override { return server_->parameter_count(); }
  bool holds_model() const override { return server_->place.first(); }
  const training::TrafficAccount* traffic() const override { return server_->traffic.get(); }

 private:
  const std::unique_ptr<Server> server_;
};

}  // namespace

MakeRole parameter_server_role() { return role_of<Serving>(); }

ParameterServer::ParameterServer(runtime::ActorRef<protocol::Coordinator> coordinator)
    : Member(std::move(coordinator), parameter_server_role()) {}

}  // namespace weir::actors
