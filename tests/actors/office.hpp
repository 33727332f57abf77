#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/errc.hpp"
#include "protocol/share_assembly.hpp"
#include "protocol/training.hpp"
#include "runtime/actor.hpp"

namespace weir::actors::testing {

inline constexpr std::chrono::seconds patience{120};  // only a guard: every wait is for an event

/// Stands in for the head: records everything that trainers report.
class Office final : public runtime::Actor<protocol::Coordinator> {
 public:
  struct Book {
    std::mutex mutex;
    std::condition_variable changed;
    std::map<std::string, runtime::ActorRef<protocol::Worker>> workers;  ///< by id
    std::map<std::uint32_t, std::vector<protocol::Report>> reports;      ///< by rank
    std::map<std::uint64_t, std::map<std::uint32_t, Segment>> shares;    ///< by step and rank, once they are whole
    std::map<std::uint64_t, std::map<std::uint32_t, protocol::ShareAssembly>> begun;  ///< the others
    std::map<std::uint32_t, protocol::TrainingEnd> ends;
    std::map<std::uint32_t, Segment> resume_from;  ///< by rank, if it does not begin anew
    std::size_t piece_bytes = protocol::checkpoint_piece_bytes;
    int pieces = 0;         ///< that were asked for
    int refuse_pieces = 0;  ///< so many times there is no answer
    int announcements = 0;  ///< announcements of workers, including repeated ones
    bool refuse_workers = false;
    std::optional<std::uint32_t> refuse_shares_of;  ///< a rank
    int refuse_reports = 0;                         ///< the number of reports that will get no answer in time

    template <class Condition>
    bool wait(Condition condition) {
      std::unique_lock lock(mutex);
      return changed.wait_for(lock, patience, condition);
    }
  };
  explicit Office(Book& book) : book_(book) {}

  net::awaitable<Result<void>> worker_up(std::string worker_id, runtime::ActorRef<protocol::Worker> worker) override {
    const std::lock_guard lock(book_.mutex);
    if (book_.refuse_workers) co_return Error{Errc::not_found, "nobody waits for " + worker_id};
    ++book_.announcements;
    book_.workers.emplace(std::move(worker_id), std::move(worker));
    book_.changed.notify_all();
    co_return Result<void>();
  }
  net::awaitable<Result<void>> report(protocol::Report report) override {
    const std::lock_guard lock(book_.mutex);
    const bool refuse = book_.refuse_reports > 0 && book_.refuse_reports-- > 0;
    book_.reports[report.rank].push_back(std::move(report));
    book_.changed.notify_all();
    if (refuse) co_return Error{Errc::deadline_exceeded, "as if the answer was lost"};
    co_return Result<void>();
  }
  net::awaitable<Result<void>> checkpoint(protocol::CheckpointPiece piece) override {
    const std::lock_guard lock(book_.mutex);
    if (piece.rank == book_.refuse_shares_of) co_return Error{Errc::conflict, "the disk is full"};
    auto& share = book_.begun[piece.step][piece.rank];
    if (auto added = share.add(piece); !added) co_return added;
    if (share.is_whole()) {
      book_.shares[piece.step][piece.rank] = Segment::own(share.bytes().copy(0, share.bytes().size()));
      book_.begun[piece.step].erase(piece.rank);
      book_.changed.notify_all();
    }
    co_return Result<void>();
  }
  net::awaitable<Result<Segment>> resume(protocol::ResumeRequest request) override {
    const std::lock_guard lock(book_.mutex);
    ++book_.pieces;
    if (book_.refuse_pieces > 0 && book_.refuse_pieces-- > 0) co_return Error{Errc::peer_lost, "as if the link broke"};
    const Segment& all = book_.resume_from.at(request.rank);
    co_return all.slice(request.offset, std::min(all.size() - request.offset, book_.piece_bytes));
  }
  net::awaitable<Result<void>> ended(protocol::TrainingEnd end) override {
    const std::lock_guard lock(book_.mutex);
    EXPECT_FALSE(book_.ends.contains(end.rank)) << "rank " << end.rank << " ended twice";
    book_.ends[end.rank] = std::move(end);
    book_.changed.notify_all();
    co_return Result<void>();
  }

 private:
  Book& book_;
};

/// A small job on synthetic data, as the head would send it.
inline nlohmann::json job(const std::string& compressor) {
  nlohmann::json spec = nlohmann::json::parse(R"({
    "name": "test",
    "model": {"name": "mlp", "params": {"hidden": 16}},
    "dataset": {"name": "synthetic", "path": null, "partition": "iid",
                "params": {"height": 8, "width": 8, "classes": 4, "train_examples": 512, "test_examples": 64,
                           "noise": 0.5, "seed": 1}},
    "training": {"mode": "sync", "epochs": 2, "max_steps": null, "batch_size": 16, "seed": 1, "params": {},
                 "optimizer": {"name": "sgd", "lr": 0.05, "momentum": 0.9, "nesterov": false, "weight_decay": 0},
                 "lr_schedule": {"name": "constant"}},
    "compression": {"name": "none", "params": {}, "memory": "none", "memory_params": {}, "apply_to": "gradients"},
    "exchange": {"topology": "ring", "transport": "auto", "bucket_bytes": 1024},
    "resources": {"workers": 2, "min_workers": 2, "per_worker": {"cpu": 1}, "labels": {},
                  "placement": "pack", "priority": 0},
    "evaluation": {"every_steps": 10},
    "checkpoint": {"every_steps": 20, "keep": 3, "resume_from": null},
    "fault_tolerance": {"max_restarts": 0}})");
  spec["compression"]["name"] = compressor;
  spec["compression"]["memory"] = compressor == "dgc" ? "dgc" : "none";
  return spec;
}

}  // namespace weir::actors::testing
