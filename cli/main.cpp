#include "cli/program.hpp"

int main(int count, char** words) {
  weir::cli::Program program;
  return program.run(count, words);
}
