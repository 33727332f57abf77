#include "compressors/codecs/payload.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "base/xxh3.hpp"
#include "compressors/codecs/varint.hpp"

namespace weir::compressors {
namespace {

constexpr std::uint8_t magic = 0xA0;
constexpr std::size_t checksum_bytes = 4;

struct Header {
  Format format = Format::sparse;
  std::size_t checksum_at = 0;  ///< bytes before the checksum
  std::size_t body_bytes = 0;

  std::size_t bytes() const { return checksum_at + checksum_bytes; }
};

/// The checksum of a payload. It covers everything but itself.
std::uint32_t checksum(BytesView payload, const Header& header, const PartLoop& for_each_part) {
  const XXH64_hash_t seed = XXH3_64bits(payload.data(), header.checksum_at);
  const auto low_half = [&](BytesView covered) {
    return static_cast<std::uint32_t>(XXH3_64bits_withSeed(covered.data(), covered.size(), seed));
  };
  const BytesView body = payload.subspan(header.bytes(), header.body_bytes);
  if (body.size() <= checksum_piece) return low_half(body);
  thread_local std::vector<XXH64_hash_t> kept;  // between calls, to reuse its memory
  kept.resize((body.size() + checksum_piece - 1) / checksum_piece);
  const std::span hashes = kept;
  for_each_part(hashes.size(), [&](std::size_t i) {
    const std::size_t start = i * checksum_piece;
    hashes[i] = XXH3_64bits(body.data() + start, std::min(checksum_piece, body.size() - start));
  });
  return low_half(std::as_bytes(std::span(hashes)));
}

Result<Header> read_header(BytesView bytes) {
  if (bytes.size() < 2) return Error(Errc::malformed, "a payload ends within its header");
  const auto first = std::to_integer<std::uint8_t>(bytes[0]);
  if ((first & 0xF0) != magic) return Error(Errc::malformed, "not a gradient payload");
  if ((first & 0x0F) != payload_version) {
    return Error(Errc::unsupported, "payload version " + std::to_string(first & 0x0F) + "; this build reads version " +
                                        std::to_string(payload_version));
  }
  Header header;
  header.format = static_cast<Format>(bytes[1]);
  BytesView rest = bytes.subspan(2);
  const auto body_bytes = read_varint(rest);
  if (!body_bytes) return Error(Errc::malformed, "a payload's length is not a number");
  header.checksum_at = bytes.size() - rest.size();
  if (rest.size() < checksum_bytes || rest.size() - checksum_bytes < *body_bytes) {
    return Error(Errc::malformed, "a payload says it has " + std::to_string(*body_bytes) + " bytes, but it is cut off");
  }
  header.body_bytes = *body_bytes;
  return header;
}

}  // namespace

void one_by_one(std::size_t count, FunctionRef<void(std::size_t)> body) {
  for (std::size_t i = 0; i < count; ++i) body(i);
}

PayloadWriter::PayloadWriter(Bytes& out, Format format, std::size_t body_bytes) : out_(out), start_(out.size()) {
  ensure(body_bytes <= varint_max, "a payload is too long for its header");
  out_.push_back(std::byte{magic | payload_version});
  out_.push_back(static_cast<std::byte>(format));
  append_varint(out_, body_bytes);
  out_.resize(out_.size() + checksum_bytes + body_bytes, boost::container::default_init);
  body_ = out_.size() - body_bytes;
}

std::span<std::byte> PayloadWriter::body() { return std::span(out_).subspan(body_); }

void PayloadWriter::seal(const PartLoop& for_each_part) {
  Header header;
  header.checksum_at = body_ - start_ - checksum_bytes;
  header.body_bytes = out_.size() - body_;
  store_u32(out_.data() + start_ + header.checksum_at,
            checksum(BytesView(out_).subspan(start_), header, for_each_part));
}

Result<BytesView> take_payload(BytesView& stream) {
  const auto header = read_header(stream);
  if (!header) return header.error();
  const BytesView payload = stream.first(header->bytes() + header->body_bytes);
  stream = stream.subspan(payload.size());
  return payload;
}

Result<BytesView> open_payload(BytesView payload, Format format, const PartLoop& for_each_part) {
  const auto header = read_header(payload);
  if (!header) return header.error();
  if (header->bytes() + header->body_bytes != payload.size()) {
    return Error(Errc::malformed, "bytes follow the end of a payload");
  }
  if (load_u32(payload.data() + header->checksum_at) != checksum(payload, *header, for_each_part)) {
    return Error(Errc::malformed, "a payload's checksum does not match its bytes");
  }
  if (header->format != format) {
    return Error(Errc::unsupported, "payload format " + std::to_string(static_cast<int>(header->format)) +
                                        ", expected " + std::to_string(static_cast<int>(format)));
  }
  return payload.subspan(header->bytes());
}

}  // namespace weir::compressors
