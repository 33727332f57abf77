#include "training/servers/messages.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/errc.hpp"

namespace weir::training::servers {
namespace {

static_assert(std::endian::native == std::endian::little);

/// Reads `count` numbers.
template <std::size_t count>
Result<std::array<std::uint64_t, count>> numbers(Reader& reader) {
  std::array<std::uint64_t, count> all{};
  for (auto& one : all) {
    const auto read = reader.number();
    if (!read) return read.error();
    one = *read;
  }
  return all;
}

Error unknown(const char* what) { return {Errc::malformed, std::string(what) + " that this build does not know"}; }

}  // namespace

std::string_view name_of(Kind kind) {
  switch (kind) {
    case Kind::push: return "a push";
    case Kind::answer: return "an answer";
    case Kind::decided: return "a decision";
    case Kind::late: return "word of a late push";
    case Kind::halt: return "an order to halt";
    case Kind::halted: return "word of a halt";
    case Kind::rest: return "an order to rest";
    case Kind::rested: return "word of a rest";
    case Kind::go_on: return "leave to go on";
    case Kind::wants_part: return "a wish for parameters";
    case Kind::part: return "parameters";
  }
  return "a message";
}

Result<Kind> kind_of(const collectives::Subject& about) {
  if (about.bucket < static_cast<std::uint32_t>(Kind::push) || about.bucket > static_cast<std::uint32_t>(Kind::part)) {
    return unknown("a kind of message");
  }
  return static_cast<Kind>(about.bucket);
}

void write(Bytes& out, std::uint64_t number) { append(out, std::as_bytes(std::span(&number, 1))); }
void write(Bytes& out, const Push& push) {
  for (const auto number : {push.clock, push.version, push.step, push.buffers}) write(out, number);
}
void write(Bytes& out, const Answer& answer) {
  for (const auto number : {answer.clock, answer.version, answer.step, answer.flags}) write(out, number);
}
void write(Bytes& out, const Rest& rest) {
  for (const auto number : {rest.version, rest.step, rest.applied, rest.flags}) write(out, number);
}

Result<std::uint64_t> Reader::number() {
  const auto read = bytes(sizeof(std::uint64_t));
  if (!read) return read.error();
  std::uint64_t value = 0;
  std::memcpy(&value, read->data(), sizeof(value));
  return value;
}

Result<BytesView> Reader::bytes(std::uint64_t count) {
  if (count > rest_.size()) {
    return Error{Errc::malformed, "it ends " + std::to_string(count - rest_.size()) + " bytes too early"};
  }
  const BytesView taken = rest_.first(count);
  rest_ = rest_.subspan(count);
  return taken;
}

Result<Push> Reader::push() {
  const auto all = numbers<4>(*this);
  if (!all) return all.error();
  return Push{(*all)[0], (*all)[1], (*all)[2], (*all)[3]};
}

Result<Answer> Reader::answer() {
  const auto all = numbers<4>(*this);
  if (!all) return all.error();
  if ((*all)[3] >= Answer::flags_end) return unknown("a flag");
  return Answer{(*all)[0], (*all)[1], (*all)[2], (*all)[3]};
}

Result<Rest> Reader::rest() {
  const auto all = numbers<4>(*this);
  if (!all) return all.error();
  if ((*all)[3] >= Rest::flags_end) return unknown("a flag");
  return Rest{(*all)[0], (*all)[1], (*all)[2], (*all)[3]};
}

Result<void> Reader::end() const {
  if (rest_.empty()) return {};
  return Error{Errc::malformed, "it goes on for " + std::to_string(rest_.size()) + " bytes too many"};
}

}  // namespace weir::training::servers
