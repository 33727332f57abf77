#include "cli/follow.hpp"

#include <cstdint>
#include <map>

#include "base/errc.hpp"
#include "base/utf8.hpp"
#include "cli/console.hpp"
#include "cli/exit_code.hpp"
#include "cli/format.hpp"
#include "cli/progress.hpp"
#include "protocol/roles.hpp"

namespace weir::cli {
namespace {

constexpr std::uint64_t log_piece_bytes = 256 * 1024;

nlohmann::json data_of(const ServerSentEvent& event) { return nlohmann::json::parse(event.data, nullptr, false); }

std::string job_path(const std::string& id) { return "/api/v1/jobs/" + percent_encoded(id); }

/// Prints the output of a job's processes from where it stopped before.
class LogPrinter {
 public:
  LogPrinter(const Api& api, std::string id, int worker, bool json)
      : api_(api), id_(std::move(id)), only_(worker), json_(json) {}

  /// Prints the new output of every process. Unless it is `whole`, a character that is cut at the end of a log of a job
  /// that goes on is left for the next time.
  Result<void> catch_up(bool whole) {
    if (only_ >= 0) return catch_up(static_cast<std::uint64_t>(only_), whole);
    auto job = api_.get(job_path(id_));
    if (!job) return job.error();
    const auto groups = protocol::read_groups(member(*job, "spec"));
    if (!groups) return groups.error();
    prefixed_ = protocol::members_of(*groups) > 1;
    auto sizes = api_.get(job_path(id_) + "/logs?limit=1");  // every answer has the sizes of all
    if (!sizes) return sizes.error();
    whole = whole || member(*sizes, "complete") == true;
    for (const auto& printed : member(*sizes, "workers")) {
      if (auto done = print_until(size_of(printed), static_cast<std::uint64_t>(number(printed, "worker")), whole);
          !done)
        return done;
    }
    return {};
  }

  /// The same for one process.
  Result<void> catch_up(std::uint64_t worker, bool whole) {
    if (only_ >= 0 && worker != static_cast<std::uint64_t>(only_)) return {};
    auto log = api_.get(job_path(id_) + "/logs?worker=" + std::to_string(worker) + "&limit=1");
    if (!log) return log.error();
    return print_until(size_of(*log), worker, whole || member(*log, "complete") == true);
  }

  /// Ends lines that have no line end yet.
  void finish() {
    for (auto& [worker, rest] : rests_) {
      if (!rest.empty()) write(worker, "\n");
    }
    end_passing_on();
  }

 private:
  static std::uint64_t size_of(const nlohmann::json& log) { return static_cast<std::uint64_t>(number(log, "size")); }

  /// Prints the output of a process up to its byte `size`, or a little more. It is asked for as text: as JSON the head
  /// could not send bytes that are not UTF-8.
  Result<void> print_until(std::uint64_t size, std::uint64_t worker, bool whole) {
    std::uint64_t& offset = offsets_[worker];
    if (size < offset) offset = 0;  // the head's file was shortened: what is there now is new
    while (offset < size) {
      auto piece = api_.body(job_path(id_) + "/logs?worker=" + std::to_string(worker) + "&format=text&offset=" +
                             std::to_string(offset) + "&limit=" + std::to_string(log_piece_bytes));
      if (!piece) return piece.error();
      if (piece->empty()) return {};  // shortened meanwhile, which the next look finds
      const bool at_end = offset + piece->size() >= size;
      if (const auto tail = unfinished_tail(*piece); tail > 0 && !(at_end && whole)) {
        if (tail == piece->size() && at_end) return {};
        if (tail < piece->size()) piece->resize(piece->size() - tail);
      }
      if (json_) {
        print_line({{"job", id_}, {"worker", worker}, {"offset", offset}, {"text", *piece}});
      } else {
        write(worker, *piece);
      }
      if (!output_is_open()) return unwritable();
      offset += piece->size();
      if (at_end) return {};
    }
    return {};
  }

  void write(std::uint64_t worker, const std::string& text) {
    if (!prefixed_) {
      pass_on(text);
      end_passing_on();
      return;
    }
    std::string& rest = rests_[worker];
    rest += text;
    std::size_t begin = 0;
    for (std::size_t end; (end = rest.find('\n', begin)) != std::string::npos; begin = end + 1) {
      pass_on("[" + std::to_string(worker) + "] " + rest.substr(begin, end + 1 - begin));
    }
    rest.erase(0, begin);
    end_passing_on();
  }

  const Api& api_;
  const std::string id_;
  const int only_;
  const bool json_;
  bool prefixed_ = false;
  std::map<std::uint64_t, std::uint64_t> offsets_;
  std::map<std::uint64_t, std::string> rests_;
};

Error deleted(const std::string& id) { return {Errc::not_found, "job " + id + " was deleted"}; }

bool ended(const nlohmann::json& job) {
  const std::string state = text(job, "state");
  return state == "SUCCEEDED" || state == "FAILED" || state == "STOPPED";
}

}  // namespace

int follow_job(const Api& api, const std::string& id, bool json) {
  Progress progress;
  ProgressLine line;
  nlohmann::json last;  // the newest record of the job
  const auto take = [&](nlohmann::json job) {
    progress.take_job(job, steady_seconds());
    last = std::move(job);
  };
  const auto refresh = [&]() -> Result<void> {
    auto job = api.get(job_path(id));
    if (!job) return job.error();
    take(std::move(*job));
    // A job that waits causes no events that would tell why.
    if (progress.waits()) line.show(progress.line(steady_seconds()), steady_seconds());
    return {};
  };
  const HttpClient::StreamHandlers handlers{
      // The stream reports what happens from its opening on; the job itself has what happened before.
      .opened = refresh,
      .event = [&](const ServerSentEvent& event) -> Result<bool> {
        if (progress.ended()) return false;
        if (event.name == "job_removed") return deleted(id);
        if (event.name == "reset") {
          if (auto done = refresh(); !done) return done.error();
        }
        const nlohmann::json data = data_of(event);
        if (event.name == "job" || event.name == "job_end") take(data);
        if (event.name == "metrics") progress.take_metrics(data, steady_seconds());
        const bool is_end = text(data, "kind") == "job.state";  // which the verdict tells
        if (event.name == "event" && text(data, "severity") != "info" && !is_end) line.say(text(data, "message"));
        if (!progress.ended()) line.show(progress.line(steady_seconds()), steady_seconds());
        return !progress.ended();
      },
      .broken = [&](const Error& error) { line.say(error.context + "; trying again"); }};
  // The stream of a job that has ended may have no more events, so the job is read first.
  Result<void> done = refresh();
  if (done && !progress.ended())
    done = api.client().stream("/api/v1/stream?topics=job:" + percent_encoded(id), handlers);
  line.finish();
  if (!done && done.error().code == Errc::cancelled) {
    return complain_of_job({Errc::cancelled, "not watching any more; the job goes on. `weir job show " + id +
                                                 "` tells how it stands, `weir job stop " + id + "` ends it."},
                           id);
  }
  if (!done) return complain_of_job(done.error(), id);
  // It may have a summary by now. If it cannot be read any more, what came with the end tells the outcome.
  static_cast<void>(refresh());
  if (json) print(last);
  say(progress.verdict());
  return progress.succeeded() ? ExitCode::ok : ExitCode::failed;
}

int show_logs(const Api& api, const std::string& id, int worker, bool json) {
  LogPrinter printer(api, id, worker, json);
  auto done = printer.catch_up(!json);
  printer.finish();
  if (!output_is_open()) return ExitCode::ok;  // unless something is lost, which the program tells
  return done ? int{ExitCode::ok} : complain(done.error());
}

int follow_logs(const Api& api, const std::string& id, int worker, bool json) {
  LogPrinter printer(api, id, worker, json);
  bool over = false;
  // Events only signal that there is more: reading by offset prints each byte once, whatever the stream repeats.
  const auto look = [&]() -> Result<void> {
    auto job = api.get(job_path(id));
    if (!job) return job.error();
    over = ended(*job);
    return printer.catch_up(over);
  };
  const HttpClient::StreamHandlers handlers{
      .opened = look,
      .event = [&](const ServerSentEvent& event) -> Result<bool> {
        if (over) return false;
        if (event.name == "job_removed") return deleted(id);
        if (!output_is_open()) return unwritable();  // also where there is nothing to print for long
        const nlohmann::json data = data_of(event);
        over = event.name == "job_end" || (event.name == "job" && ended(data));
        Result<void> read;
        if (over || event.name == "reset") {
          read = printer.catch_up(over);
        } else if (event.name == "log") {
          read = printer.catch_up(static_cast<std::uint64_t>(number(data, "worker")), false);
        }
        if (!read) return read.error();
        return !over;
      },
      .broken = [](const Error& error) { say(error.context + "; trying again"); }};
  Result<void> done = look();
  const std::string topics = "logs:" + percent_encoded(id) + ",job:" + percent_encoded(id);
  if (done && !over) done = api.client().stream("/api/v1/stream?topics=" + topics, handlers);
  printer.finish();
  if (!done && done.error().code == Errc::cancelled) return ExitCode::interrupted;
  if (!output_is_open()) return ExitCode::ok;  // as above
  return done ? int{ExitCode::ok} : complain(done.error());
}

}  // namespace weir::cli
