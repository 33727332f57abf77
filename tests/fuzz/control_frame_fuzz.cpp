#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "base/ensure.hpp"
#include "protocol/node.hpp"
#include "protocol/training.hpp"
#include "runtime/frame.hpp"
#include "runtime/serialize.hpp"

namespace {

using weir::BytesView;

/// The arguments of a message, as a peer would have them parsed: every message struct there is.
void parse_arguments(BytesView body, std::span<const weir::Segment> segments) {
  const auto parse = [&]<class T>(std::type_identity<T>) {
    weir::runtime::Reader in(body, segments);
    (void)weir::runtime::read_value<T>(in);
  };
  parse(std::type_identity<weir::protocol::NodeInfo>());
  parse(std::type_identity<weir::protocol::NodeHeartbeat>());
  parse(std::type_identity<weir::protocol::WorkerLaunch>());
  parse(std::type_identity<weir::protocol::WorkerExit>());
  parse(std::type_identity<weir::protocol::OutputBatch>());
  parse(std::type_identity<weir::protocol::Assignment>());
  parse(std::type_identity<std::vector<weir::protocol::RankEndpoint>>());
  parse(std::type_identity<weir::protocol::Report>());
  parse(std::type_identity<weir::protocol::CheckpointPiece>());
  parse(std::type_identity<weir::protocol::TrainingEnd>());
  parse(std::type_identity<weir::runtime::ActorRef<weir::protocol::NodeAgent>>());
}

/// The stream, cut into pieces, through the decoder of a link.
void decode_stream(BytesView stream, std::size_t piece) {
  const weir::runtime::FrameLimits limits{.body_bytes_max = 1 << 16, .segments_max = 8, .segments_bytes_max = 1 << 20};
  weir::runtime::FrameDecoder decoder(limits, 16 << 10);
  while (!stream.empty()) {
    const auto space = decoder.prepare();
    weir::ensure(!space.empty(), "there is always room for the next bytes");
    const std::size_t count = std::min({piece, space.size(), stream.size()});
    std::memcpy(space.data(), stream.data(), count);
    decoder.commit(count);
    stream = stream.subspan(count);
    weir::runtime::FrameView frame;
    while (true) {
      const auto more = decoder.next(frame);
      if (!more) return;
      if (!*more) break;
      parse_arguments(frame.body, frame.segments);
    }
  }
}

}  // namespace

/// Byte 0 chooses: arguments alone, a stream in pieces, or a frame made of the bytes with valid checksums, so that the
/// search gets behind them.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const BytesView bytes = std::as_bytes(std::span(data + 1, size - 1));
  if (data[0] % 3 == 0) {
    parse_arguments(bytes, {});
  } else if (data[0] % 3 == 1) {
    decode_stream(bytes, 1 + data[0] / 3u);
  } else {
    weir::runtime::FrameBuffer buffer;
    const BytesView first = bytes.first(bytes.size() / 2);
    const auto segment = weir::Segment::own(weir::Bytes(first.begin(), first.end()));
    const auto added = buffer.add(weir::runtime::FrameKind::call, bytes.subspan(first.size()), std::array{segment});
    weir::ensure(added.has_value(), "a small frame can be written");
    std::array<BytesView, 4> spans;
    weir::Bytes stream;
    for (const auto& span : std::span(spans).first(buffer.spans(spans))) {
      stream.insert(stream.end(), span.begin(), span.end());
    }
    decode_stream(stream, 1 + data[0]);
  }
  return 0;
}
