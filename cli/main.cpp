#include "cli/program.hpp"

int main(int count, char** words) {
  weir::cli::Program program;
  add_head(program.app(), program.choice());
  return program.run(count, words);
}
