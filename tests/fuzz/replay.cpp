// The main function of a fuzz target where there is no libFuzzer: runs it over every file of the folders given. The
// searching is libFuzzer's (`make fuzz`).

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argc, char** argv) {
  std::size_t count = 0;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      std::ifstream file(entry.path(), std::ios::binary);
      const std::vector<std::uint8_t> input{std::istreambuf_iterator<char>(file), {}};
      std::printf("%s (%zu bytes)\n", entry.path().filename().c_str(), input.size());
      std::fflush(stdout);  // the last line names the input, should the target abort
      LLVMFuzzerTestOneInput(input.data(), input.size());
      ++count;
    }
  }
  if (count > 0) return 0;
  std::fprintf(stderr, "no inputs: give folders with at least one file\n");
  return 1;
}
