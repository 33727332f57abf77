#include "actors/datasets/catalog.hpp"

#include "actors/datasets/fashion_mnist.hpp"
#include "actors/datasets/synthetic.hpp"

namespace weir::actors {

const Menu<Dataset, const std::string&>& datasets() {
  static const auto menu = Menu<Dataset, const std::string&>("dataset").add<FashionMnist>().add<Synthetic>();
  return menu;
}

}  // namespace weir::actors
