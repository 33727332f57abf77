// The main function of a fuzz target where there is no libFuzzer: runs it over every file of the folders given, and
// with `--mutate SECONDS` goes on with random changes of these inputs for that long. It has no coverage to guide it;
// the searching itself is libFuzzer's where clang can build the target (`make fuzz`). `--keep FILE`: the input that
// kills the target, or takes it ten seconds, is written there.

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

/// What a sanitizer finds ends in abort(), as what ensure() finds: one handler keeps the input.
extern "C" const char* __asan_default_options() { return "abort_on_error=1"; }
extern "C" const char* __ubsan_default_options() { return "abort_on_error=1"; }

namespace {

using Input = std::vector<std::uint8_t>;

/// The input at work. It is written to a file only when the process dies of it: a file for each would take a hundred
/// times as long as most targets do.
const Input* current = nullptr;
const char* keep = nullptr;

/// What runs here may stand on a broken heap: nothing but system calls.
void keep_current() {
  if (keep == nullptr || current == nullptr) return;
  const int file = open(keep, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file < 0) return;
  if (write(file, current->data(), current->size()) >= 0) close(file);
}

void die_of(int signal) {
  keep_current();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void run(const Input& input) {
  current = &input;
  alarm(10);
  LLVMFuzzerTestOneInput(input.data(), input.size());
  alarm(0);
  current = nullptr;
}

Input read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// One to four changes: a byte replaced, a bit flipped, a piece cut out, doubled or taken from another input.
Input mutated(const std::vector<Input>& inputs, std::mt19937_64& random) {
  const auto below = [&random](std::size_t n) { return n == 0 ? 0 : random() % n; };
  Input input = inputs[below(inputs.size())];
  for (std::size_t changes = 1 + below(4); changes > 0; --changes) {
    const auto at = static_cast<std::ptrdiff_t>(below(input.size() + 1));
    const auto length = static_cast<std::ptrdiff_t>(below(input.size() - static_cast<std::size_t>(at) + 1));
    switch (below(5)) {
      case 0:
        if (length > 0) input[static_cast<std::size_t>(at)] = static_cast<std::uint8_t>(random());
        break;
      case 1:
        if (length > 0) input[static_cast<std::size_t>(at)] ^= static_cast<std::uint8_t>(1U << below(8));
        break;
      case 2: input.erase(input.begin() + at, input.begin() + at + length); break;
      case 3: {
        const Input piece(input.begin() + at, input.begin() + at + length);
        input.insert(input.begin() + at, piece.begin(), piece.end());
        break;
      }
      default: {
        const Input& other = inputs[below(inputs.size())];
        const auto from = static_cast<std::ptrdiff_t>(below(other.size() + 1));
        input.insert(input.begin() + at, other.begin() + from, other.end());
      }
    }
  }
  if (input.size() > 65536) input.resize(65536);
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGABRT, die_of);
  std::signal(SIGALRM, die_of);
  std::chrono::seconds mutate_for{0};
  std::vector<Input> inputs;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--mutate" && i + 1 < argc) {
      mutate_for = std::chrono::seconds(std::atoi(argv[++i]));
      continue;
    }
    if (std::string_view(argv[i]) == "--keep" && i + 1 < argc) {
      keep = argv[++i];
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      inputs.push_back(read(entry.path()));
      std::printf("%s (%zu bytes)\n", entry.path().filename().c_str(), inputs.back().size());
      std::fflush(stdout);  // the last line names the input, should the target abort
      run(inputs.back());
    }
  }
  if (inputs.empty()) {
    std::fprintf(stderr, "no inputs: give folders with at least one file\n");
    return 1;
  }
  std::mt19937_64 random(1);
  const auto deadline = std::chrono::steady_clock::now() + mutate_for;
  std::size_t count = 0;
  for (; std::chrono::steady_clock::now() < deadline; ++count) {
    run(mutated(inputs, random));
  }
  if (count > 0) std::printf("%zu changed inputs\n", count);
  return 0;
}
