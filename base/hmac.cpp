#include "base/hmac.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <cstdint>
#include <memory>

#include "base/ensure.hpp"

namespace weir {
namespace {

using Block = std::array<std::byte, 64>;  // the block size of SHA-256

Digest sha256(BytesView first, std::initializer_list<BytesView> rest) {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  ensure(context && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1, "SHA-256 is not available");
  EVP_DigestUpdate(context.get(), first.data(), first.size());
  for (BytesView part : rest) EVP_DigestUpdate(context.get(), part.data(), part.size());
  Digest digest;
  EVP_DigestFinal_ex(context.get(), reinterpret_cast<unsigned char*>(digest.data()), nullptr);
  return digest;
}

Block padded(std::string_view key, std::byte with) {
  Block block{};
  BytesView bytes = std::as_bytes(std::span(key));
  Digest hashed;
  if (bytes.size() > block.size()) {
    hashed = sha256(bytes, {});
    bytes = hashed;
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) block[i] = bytes[i];
  for (std::byte& b : block) b ^= with;
  return block;
}

}  // namespace

Digest hmac_sha256(std::string_view key, std::initializer_list<BytesView> parts) {
  const Digest inner = sha256(padded(key, std::byte{0x36}), parts);
  return sha256(padded(key, std::byte{0x5c}), {BytesView(inner)});
}

bool equal_in_constant_time(const Digest& a, const Digest& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Digest random_digest() {
  Digest digest;
  ensure(RAND_bytes(reinterpret_cast<unsigned char*>(digest.data()), static_cast<int>(digest.size())) == 1,
         "the system gives no random bytes");
  return digest;
}

std::string hex(const Digest& digest) {
  static constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : digest)
    text += {digits[std::to_integer<unsigned>(byte) >> 4], digits[std::to_integer<unsigned>(byte) & 15]};
  return text;
}

}  // namespace weir
