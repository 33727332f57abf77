#include "cluster/exit_text.hpp"

#include <cstring>
#include <string_view>

namespace weir::cluster {

std::string how_it_ended(const protocol::WorkerExit& exit) {
  if (exit.signal)
    return "was killed by signal " + std::to_string(*exit.signal) + " (" + ::strsignal(*exit.signal) + ")";
  if (exit.exit_code) return "exited with code " + std::to_string(*exit.exit_code);
  return "is gone";
}

std::string last_words_of(const protocol::WorkerExit& exit) {
  const std::string& output = exit.last_output;
  const auto end = output.find_last_not_of(" \r\n");
  if (end == std::string::npos) return {};
  const auto line_break = output.find_last_of('\n', end);
  const auto begin = line_break == std::string::npos ? 0 : line_break + 1;
  const std::string line = output.substr(begin, end + 1 - begin);
  constexpr std::string_view of_loader = "error while loading shared libraries: ";
  const auto refused = line.find(of_loader);
  if (refused == std::string::npos) return "; its last output: " + line;
  const std::string rest = line.substr(refused + of_loader.size());
  return "; it does not start without " + rest.substr(0, rest.find(':')) +
         ", which is missing there: `weir doctor` on that node says what to install";
}

}  // namespace weir::cluster
