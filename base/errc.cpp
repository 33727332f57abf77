#include "base/errc.hpp"

#include <string>

namespace weir {
namespace {

class Category final : public boost::system::error_category {
 public:
  const char* name() const noexcept override { return "weir"; }
  std::string message(int value) const override {
    switch (static_cast<Errc>(value)) {
      case Errc::invalid_argument: return "invalid argument";
      case Errc::not_found: return "not found";
      case Errc::conflict: return "conflict";
      case Errc::deadline_exceeded: return "deadline exceeded";
      case Errc::cancelled: return "cancelled";
      case Errc::peer_lost: return "peer lost";
      case Errc::mailbox_full: return "mailbox full";
      case Errc::malformed: return "malformed";
      case Errc::unauthenticated: return "unauthenticated";
      case Errc::unsupported: return "unsupported";
      case Errc::io: return "input/output error";
      case Errc::exhausted: return "limit reached";
      case Errc::internal: return "internal error";
    }
    return "unknown error";
  }
};

}  // namespace

const boost::system::error_category& weir_category() noexcept {
  static const Category category;
  return category;
}

}  // namespace weir
