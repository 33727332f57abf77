#include "runtime/serialize.hpp"

#include <array>

namespace weir::runtime {
namespace {

/// The categories whose numbers mean the same in every process.
const boost::system::error_category* find_category(std::string_view name) {
  const std::array<const boost::system::error_category*, 3> known{&weir_category(), &boost::system::system_category(),
                                                                  &boost::system::generic_category()};
  for (const auto* category : known) {
    if (name == category->name()) return category;
  }
  return nullptr;
}

}  // namespace

void Codec<Error>::write(Writer& out, const Error& value) {
  const auto& category = value.code.category();
  const bool known = find_category(category.name()) != nullptr;
  Codec<std::string>::write(out, known ? category.name() : weir_category().name());
  out.number(static_cast<std::int32_t>(known ? value.code.value() : static_cast<int>(Errc::internal)));
  Codec<std::string>::write(out, known ? value.context : value.message());
}

bool Codec<Error>::read(Reader& in, Error& value) {
  std::string category;
  std::int32_t number = 0;
  if (!Codec<std::string>::read(in, category) || !in.number(number)) return false;
  if (!Codec<std::string>::read(in, value.context)) return false;
  const auto* found = find_category(category);
  // Number 0 means success, which is not a valid Error.
  value.code =
      found != nullptr && number != 0 ? boost::system::error_code(number, *found) : make_error_code(Errc::internal);
  return true;
}

}  // namespace weir::runtime
