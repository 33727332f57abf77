#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "base/bytes.hpp"
#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "base/result.hpp"
#include "compressors/codecs/payload.hpp"

// Messages of several payloads, as ranks send them of the tensors of a bucket.

namespace weir::compressors::fuzz {

/// What a peer may send where `honest` is due. The input is one item after another, each of which begins with a byte:
///
///     0         the next payload of `honest`, or the rest of it if that is no payload
///     1 to 17   a payload of this format with a right header and checksum: a byte, and so many bytes of its body
///     18        leaves the next payload of `honest` out
///     19        goes back to the first payload of `honest`
///     from 20   so many bytes less 20, as they are
inline Bytes message_of(BytesView input, BytesView honest) {
  constexpr std::size_t leave_out = 18;
  constexpr std::size_t go_back = 19;
  constexpr std::size_t as_they_are = 20;
  static_assert(formats_end <= leave_out);
  const auto take = [&input](std::size_t count) {
    const BytesView taken = input.first(std::min(count, input.size()));
    input = input.subspan(taken.size());
    return taken;
  };
  BytesView rest = honest;
  const auto next = [&rest] {
    const auto payload = take_payload(rest);
    return payload ? *payload : std::exchange(rest, BytesView());
  };
  Bytes message;
  while (!input.empty()) {
    const auto item = std::to_integer<std::size_t>(take(1)[0]);
    if (item == 0) {
      append(message, next());
    } else if (item == leave_out) {
      next();
    } else if (item == go_back) {
      rest = honest;
    } else if (item >= as_they_are) {
      append(message, take(item - as_they_are));
    } else {
      const BytesView length = take(1);
      const BytesView body = take(length.empty() ? 0 : std::to_integer<std::size_t>(length[0]));
      PayloadWriter writer(message, static_cast<Format>(item), body.size());
      std::ranges::copy(body, writer.body().begin());
      writer.seal();
    }
  }
  return message;
}

/// The values of a rank: both signs, some much larger than others.
inline void fill(std::span<float> values, std::uint32_t rank) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((i + rank) * 7919 % 257) / 64 - 2;
}

/// How many payloads a message has; nothing if it has something else.
inline std::optional<std::size_t> payloads_in(BytesView message) {
  std::size_t count = 0;
  for (; !message.empty(); ++count) {
    if (!take_payload(message)) return std::nullopt;
  }
  return count;
}

/// Checks what became of `message` where `honest` was due: an honest one is taken, and one that is taken has as many
/// payloads or, if those are bare numbers, as many bytes.
inline void expect_fits(const Result<void>& taken, BytesView message, BytesView honest) {
  if (!taken) {
    ensure(!std::ranges::equal(message, honest), "an honest message is refused");
    ensure(taken.error().code == Errc::malformed || taken.error().code == Errc::unsupported, "another reason");
    return;
  }
  const auto count = payloads_in(honest);
  ensure(count ? payloads_in(message) == count : message.size() == honest.size(), "what belongs to no tensor is taken");
}

}  // namespace weir::compressors::fuzz
