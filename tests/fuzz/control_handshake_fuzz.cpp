// What a stranger may say before a control link is open, to either end of it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.hpp"
#include "base/ensure.hpp"
#include "base/printable.hpp"
#include "runtime/frame.hpp"
#include "runtime/handshake.hpp"

namespace {

using weir::BytesView;
using weir::ensure;
using weir::runtime::frame_kind_max;
using weir::runtime::FrameKind;
using weir::runtime::Handshake;

/// Of one account: others are not known.
std::optional<std::string> secret_of(std::string_view account) {
  return account == "nodes" ? std::optional<std::string>("a secret") : std::nullopt;
}

}  // namespace

/// Byte 0 chooses the end, which hears one frame after another: a byte for its kind, one for its length, and its body.
/// Without the secret no proof is right, so that the handshake must never be done.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  BytesView input = std::as_bytes(std::span(data + 1, size - 1));
  const bool connects = data[0] % 2 != 0;
  Handshake end(connects ? Handshake::Role::connect : Handshake::Role::listen, secret_of,
                {.process = 1, .name = "this end", .account = "nodes"});
  ensure(end.open().has_value() == connects, "who connects speaks first");
  bool greeted = false;
  while (input.size() >= 2) {
    const auto kind = static_cast<FrameKind>(std::to_integer<unsigned>(input[0]) % (frame_kind_max + 1U));
    const auto length = std::to_integer<std::size_t>(input[1]);
    const BytesView body = input.subspan(2, std::min(length, input.size() - 2));
    input = input.subspan(2 + body.size());
    const auto answer = end.receive({.kind = kind, .body = body, .segments = {}});
    ensure(!end.done(), "a stranger is not let in");
    if (!answer) {
      const std::string& context = answer.error().context;
      ensure(kind != FrameKind::refuse || weir::printable_line(context) == context, "a stranger's words are printable");
      return 0;  // the link is closed
    }
    ensure(kind == FrameKind::hello && !greeted && answer->has_value(), "a stranger is answered once");
    greeted = true;
    ensure(end.peer().process != 1, "another process");
    const std::string& name = end.peer().name;
    ensure(weir::printable_line(name) == name, "a name that a log can have");
    ensure(name.size() <= 4 * 256 && end.account().size() <= 256, "names of a bounded length");
  }
  return 0;
}
