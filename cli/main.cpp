#include "cli/catalog_text.hpp"
#include "cli/program.hpp"

int main(int count, char** words) {
  weir::cli::Program program(weir::cli::catalog_text);
  add_head(program.app(), program.choice());
  return program.run(count, words);
}
