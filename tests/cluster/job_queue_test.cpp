#include "cluster/job_queue.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include <algorithm>
#include <boost/asio/strand.hpp>
#include <random>

#include "tests/cluster/bare_table.hpp"

namespace weir::cluster {
namespace {

using protocol::Placement;
using protocol::Resources;
using testing::ElementsAre;
using testing::IsEmpty;

NodeOffer node(const std::string& name, double cpu) { return {name, name, {{"cpu", cpu}}, {{"cpu", cpu}}, true, {}}; }

Gang gang(std::uint32_t workers, const std::string& resource = "cpu") { return {{{workers, {{resource, 1}}}}}; }

std::vector<std::string> started(JobQueue& queue, const std::vector<NodeOffer>& offers, std::uint64_t growth) {
  std::vector<std::string> jobs;
  while (auto start = queue.next(offers, growth)) jobs.push_back(start->job_id);
  return jobs;
}

std::string reason(const JobQueue& queue, const std::string& id, const std::vector<NodeOffer>& offers) {
  JobRecord job;
  job.id = id;
  queue.fill_reasons({&job, 1}, offers);
  return job.reason;
}

TEST(JobQueue, AJobThatWaitsForRoomBlocksThoseAfterIt) {
  JobQueue queue;
  queue.add("old", {0, 1}, gang(3));
  queue.add("young", {0, 2}, gang(1));
  queue.add("urgent", {5, 3}, gang(2));
  const std::vector offers = {node("a", 4)};
  auto half_taken = offers;
  half_taken[0].free["cpu"] = 2;
  EXPECT_THAT(started(queue, half_taken, 1), ElementsAre("urgent"));
  half_taken[0].free["cpu"] = 2;
  EXPECT_THAT(started(queue, half_taken, 1), IsEmpty()) << "young would fit, but it is old's turn";
  EXPECT_THAT(reason(queue, "old", half_taken), testing::HasSubstr("waits for room for 3 workers"));
  EXPECT_EQ(reason(queue, "young", half_taken), "waits for jobs before it");
  EXPECT_EQ(reason(queue, "old", offers), "") << "its turn is now";
  EXPECT_TRUE(queue.remove("old"));
  EXPECT_FALSE(queue.remove("old"));
  EXPECT_EQ(reason(queue, "old", half_taken), "") << "nothing is said of a job that does not wait";
  EXPECT_THAT(started(queue, half_taken, 1), ElementsAre("young"));
}

TEST(JobQueue, AJobThatTheIdleClusterCannotTakeHoldsUpNobodyUntilTheClusterGrows) {
  JobQueue queue;
  queue.add("gpu", {5, 1}, gang(1, "gpu"));
  queue.add("cpu", {0, 2}, gang(1));
  std::vector offers = {node("a", 4)};
  EXPECT_THAT(started(queue, offers, 1), ElementsAre("cpu"));
  EXPECT_THAT(reason(queue, "gpu", offers), testing::HasSubstr("node a lacks gpu"));
  offers.push_back(node("b", 1));
  offers[1].total["gpu"] = offers[1].free["gpu"] = 1;
  EXPECT_THAT(started(queue, offers, 2), ElementsAre("gpu"));
}

/// How often a placement is tried for one job more, behind so many that wait.
std::uint64_t attempts_for_one_more(std::uint32_t waiting, const Gang& of_each, const std::vector<NodeOffer>& offers) {
  JobQueue queue;
  std::uint64_t order = 0;
  const auto submit = [&] {
    ++order;
    queue.add("job-" + std::to_string(order), {0, order}, of_each);
    EXPECT_THAT(started(queue, offers, 1), IsEmpty());
  };
  for (std::uint32_t i = 0; i < waiting; ++i) submit();
  EXPECT_LE(queue.attempts(), waiting);
  const auto before = queue.attempts();
  submit();
  EXPECT_EQ(queue.size(), waiting + 1);
  return queue.attempts() - before;
}

TEST(JobQueue, ASubmitTriesOnePlacementAtMostHoweverManyJobsWait) {
  std::vector offers = {node("a", 4), node("b", 4)};
  for (const std::uint32_t waiting : {1u, 10u, 200u, 5000u}) {
    EXPECT_EQ(attempts_for_one_more(waiting, gang(1, "gpu"), offers), 0u) << "it is known that nobody can place them";
  }
  for (auto& offer : offers) offer.free["cpu"] = 0;
  for (const std::uint32_t waiting : {1u, 10u, 200u, 5000u}) {
    EXPECT_EQ(attempts_for_one_more(waiting, gang(1), offers), 1u) << "they wait for room";
  }
}

TEST(JobQueue, GrowthTriesTheEqualOnesAmongImpossibleJobsOnce) {
  JobQueue queue;
  std::vector offers = {node("a", 4)};
  const std::vector impossible = {gang(1, "gpu"), gang(2, "gpu"), gang(9), gang(1, "tape")};
  constexpr std::uint64_t waiting = 10'000;
  for (std::uint64_t order = 1; order <= waiting; ++order) {
    queue.add("job-" + std::to_string(order), {0, order}, impossible[order % impossible.size()]);
  }
  EXPECT_THAT(started(queue, offers, 1), IsEmpty());
  EXPECT_EQ(queue.attempts(), impossible.size());
  offers.push_back(node("b", 1));
  EXPECT_THAT(started(queue, offers, 2), IsEmpty());
  EXPECT_EQ(queue.attempts(), 2 * impossible.size()) << "one for each kind, since the cluster has grown";
  offers.push_back(node("c", 1));
  offers[2].total["gpu"] = offers[2].free["gpu"] = 1;
  const auto before = queue.attempts();
  const auto start = queue.next(offers, 3);
  ASSERT_TRUE(start);
  EXPECT_EQ(start->job_id, "job-4");
  EXPECT_EQ(queue.attempts() - before, 4u) << "three kinds of those before it, and its own";
  EXPECT_EQ(queue.size(), waiting - 1);
}

/// The same decisions, made in the plainest way: everything is tried anew for every event.
class PlainCluster {
 public:
  struct Node {
    std::string id;
    Resources total;
    std::map<std::string, std::string> labels;
    bool open = true;
    std::map<std::string, Resources> grants;
  };
  /// What one rank of a gang asks for.
  static const Resources& asked(const Gang& gang, std::size_t rank) {
    std::size_t group = 0;
    while (rank >= gang.groups.at(group).count) rank -= gang.groups[group++].count;
    return gang.groups[group].each;
  }

  struct Job {
    std::string id;
    JobQueue::Turn turn;
    Gang gang;
  };

  std::vector<NodeOffer> offers() const {
    std::vector<NodeOffer> result;
    for (const auto& [name, node] : nodes) {
      NodeOffer offer{node.id, name, node.total, node.total, node.open, node.labels};
      for (const auto& [worker, resources] : node.grants) {
        for (const auto& [resource, amount] : resources) offer.free[resource] -= amount;
      }
      result.push_back(std::move(offer));
    }
    return result;
  }

  /// Job ids and the nodes of their workers, in the order of their starts.
  std::vector<std::pair<std::string, std::vector<std::string>>> dispatch() {
    std::vector<std::pair<std::string, std::vector<std::string>>> starts;
    std::sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) { return a.turn < b.turn; });
    bool blocked = false;
    for (auto job = jobs.begin(); job != jobs.end();) {
      const auto placement = place(job->gang, offers());
      if (!placement.fits() || blocked) {
        blocked = blocked || placement.possible;
        ++job;
        continue;
      }
      for (std::size_t rank = 0; rank < placement.nodes.size(); ++rank) {
        for (auto& [name, node] : nodes) {
          if (node.id == placement.nodes[rank])
            node.grants[job->id + "." + std::to_string(rank)] = asked(job->gang, rank);
        }
      }
      starts.emplace_back(job->id, placement.nodes);
      job = jobs.erase(job);
    }
    return starts;
  }

  std::map<std::string, Node> nodes;  ///< by name
  std::vector<Job> jobs;
};

/// A NodeTable and a JobQueue beside a PlainCluster, under the same random events.
class Comparison {
 public:
  explicit Comparison(std::uint64_t seed) : random_(seed) {}

  void event() {
    switch (below(10)) {
      case 0: return join();
      case 1: return below(2) == 0 ? drain() : lose();
      case 2: return cancel();
      case 3:
      case 4:
      case 5:
      case 6: return submit();
      default: return finish();
    }
  }

  /// One pass on either side.
  void dispatch() {
    std::vector<std::pair<std::string, std::vector<std::string>>> starts;
    while (auto start = queue_.next(table_.offers(), table_.growth())) {
      for (std::size_t rank = 0; rank < start->nodes.size(); ++rank) {
        table_.grant(start->nodes[rank], start->job_id + "." + std::to_string(rank), start->job_id,
                     PlainCluster::asked(gangs_.at(start->job_id), rank));
      }
      starts.emplace_back(start->job_id, start->nodes);
    }
    const auto expected = plain_.dispatch();
    ASSERT_EQ(starts, expected);
    for (auto& [id, nodes] : starts) running_.emplace_back(id, std::move(nodes));
    placed += starts.size();
    ASSERT_EQ(queue_.size(), plain_.jobs.size());
    waited += queue_.size();
    const auto offers = plain_.offers();
    ASSERT_EQ(table_.offers().size(), offers.size());
    for (std::size_t i = 0; i < offers.size(); ++i) {
      EXPECT_EQ(table_.offers()[i].name, offers[i].name);
      EXPECT_EQ(table_.offers()[i].free, offers[i].free) << offers[i].name;
      EXPECT_EQ(table_.offers()[i].open, offers[i].open) << offers[i].name;
      EXPECT_EQ(table_.offers()[i].labels, offers[i].labels) << offers[i].name;
    }
  }

  std::size_t placed = 0;
  std::size_t waited = 0;

 private:
  std::uint32_t below(std::uint32_t end) { return static_cast<std::uint32_t>(random_() % end); }

  void join() {
    protocol::NodeInfo info;
    info.name = "n" + std::to_string(below(12));
    if (plain_.nodes.contains(info.name)) return;
    info.incarnation = ++incarnation_;
    info.resources = {{"cpu", 0.5 * below(17)}, {"memory", 1 + below(8)}};
    if (below(3) == 0) info.resources["gpu"] = 1 + below(4);
    if (below(2) == 0) info.labels = {{"zone", below(2) == 0 ? "x" : "y"}};
    const auto joined = table_.join(info, {}).value();
    const auto id = joined->record.id;
    ASSERT_EQ(table_.offers().size(), plain_.nodes.size()) << "nothing is placed before its first heartbeat";
    ASSERT_TRUE(bare_.beat(joined->record).value().offers_more);
    plain_.nodes[info.name] = {id, info.resources, info.labels, !drained_.contains(info.name), {}};
  }

  NodeTable::Node* any_node() {
    if (plain_.nodes.empty()) return nullptr;
    return table_.find(std::next(plain_.nodes.begin(), below(static_cast<std::uint32_t>(plain_.nodes.size())))->first);
  }

  void drain() {
    if (auto* node = any_node()) {
      plain_.nodes.at(node->record.name).open = false;
      drained_.insert(node->record.name);  // it stays so when it joins again
      table_.set_drained(*node, true);
    }
  }

  void lose() {
    if (auto* node = any_node()) {
      plain_.nodes.erase(node->record.name);
      table_.mark_lost(*node, "test");
    }
  }

  void submit() {
    const auto id = "job-" + std::to_string(++order_);
    Gang gang{{{1 + below(6), {{"cpu", 0.25 * below(9)}}}}, below(2) == 0 ? Placement::pack : Placement::spread};
    if (below(4) == 0) gang.groups[0].each["gpu"] = 1;
    if (below(4) == 0) gang.groups[0].labels = {{"zone", below(3) == 0 ? "x" : "y"}};
    if (below(3) == 0) gang.groups.push_back({1 + below(3), {{"cpu", 0.5}}, {}, protocol::Role::server});
    const JobQueue::Turn turn{static_cast<std::int32_t>(below(3)), order_};
    gangs_[id] = gang;
    plain_.jobs.push_back({id, turn, gang});
    queue_.add(id, turn, gang);
  }

  void cancel() {
    if (plain_.jobs.empty()) return;
    const auto job = plain_.jobs.begin() + below(static_cast<std::uint32_t>(plain_.jobs.size()));
    EXPECT_TRUE(queue_.remove(job->id));
    plain_.jobs.erase(job);
  }

  void finish() {
    if (running_.empty()) return;
    const auto job = running_.begin() + below(static_cast<std::uint32_t>(running_.size()));
    for (std::size_t rank = 0; rank < job->second.size(); ++rank) {
      const auto worker = job->first + "." + std::to_string(rank);
      table_.release(job->second[rank], worker);
      for (auto& [name, node] : plain_.nodes) node.grants.erase(worker);
    }
    running_.erase(job);
  }

  std::mt19937_64 random_;
  BareTable bare_;
  NodeTable& table_ = bare_.nodes;
  JobQueue queue_;
  PlainCluster plain_;
  std::map<std::string, Gang> gangs_;
  std::vector<std::pair<std::string, std::vector<std::string>>> running_;
  std::uint64_t order_ = 0;
  std::uint64_t incarnation_ = 0;
  std::set<std::string> drained_;
};

TEST(JobQueue, PlacesWhatTryingEverythingForEveryEventWouldPlace) {
  std::size_t placed = 0;
  std::size_t waited = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Comparison both(seed);
    for (int step = 0; step < 200; ++step) {
      for (std::uint64_t events = 1 + (seed + static_cast<std::uint64_t>(step)) % 3; events > 0; --events) both.event();
      both.dispatch();
      if (HasFatalFailure()) FAIL() << "seed " << seed << ", step " << step;
    }
    placed += both.placed;
    waited += both.waited;
  }
  EXPECT_GT(placed, 2000u);
  EXPECT_GT(waited, 5000u) << "and jobs had to wait";
}

}  // namespace
}  // namespace weir::cluster
