#include "actors/datasets/catalog.hpp"

#include "actors/datasets/list.hpp"

namespace weir::actors {

const Menu<Dataset, const std::string&>& datasets() {
  static const auto menu = Menu<Dataset, const std::string&>("dataset").add_all(DatasetTypes{});
  return menu;
}

}  // namespace weir::actors
