#include "collectives/transports/handshake.hpp"

#include <xxhash.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cstring>
#include <string>
#include <string_view>

#include "base/errc.hpp"
#include "base/hmac.hpp"

namespace weir::collectives {
namespace {

inline constexpr auto nothrow = net::as_tuple(net::use_awaitable);

constexpr std::uint32_t magic = 0x48494557;  // "WEIH"
constexpr std::uint32_t version = 3;

enum class Verdict : std::uint32_t { welcome = 0, other_group = 1, not_proved = 2, call_locally = 3 };

// The messages as they lie in memory: no padding, little-endian (frame.cpp asserts that this machine is).
struct Hello {
  std::uint32_t magic = 0;
  std::uint32_t version = 0;
  std::uint64_t attempt = 0;
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint32_t size = 0;
  std::uint16_t lane = 0;
  std::uint8_t tcp_only = 0;
  std::uint8_t zero = 0;
  std::uint64_t job = 0;
  Digest nonce{};
};
static_assert(sizeof(Hello) == 72);

struct Answer {
  std::uint32_t magic = 0;
  Verdict verdict = Verdict::welcome;
  Digest nonce{};
  Digest proof{};
};
static_assert(sizeof(Answer) == 72);

struct Final {
  std::uint32_t magic = 0;
  Verdict verdict = Verdict::welcome;
};
static_assert(sizeof(Final) == 8);

template <class Message>
BytesView bytes_of(const Message& message) {
  return std::as_bytes(std::span(&message, 1));
}

Digest proof(const Group& group, std::string_view side, const Hello& hello, const Digest& answer_nonce) {
  return hmac_sha256(group.secret, {std::as_bytes(std::span(side)), bytes_of(hello), BytesView(answer_nonce),
                                    std::as_bytes(std::span(group.job_id))});
}

// Both have the same length, because the parts of an HMAC are not delimited.
constexpr std::string_view caller = "weir gradients: caller";
constexpr std::string_view called = "weir gradients: called";

Error broken(const boost::system::error_code& code) {
  return {Errc::peer_lost, "the connection broke in the handshake: " + code.message()};
}

Error refusal(Verdict verdict) {
  if (verdict == Verdict::other_group) return {Errc::conflict, "the other side is of another job, attempt or group"};
  if (verdict == Verdict::not_proved) return {Errc::unauthenticated, "the other side does not accept our proof"};
  return {Errc::malformed, "a handshake with an unknown verdict"};
}

template <class Message>
net::awaitable<Result<Message>> read(Socket& socket) {
  Message message;
  auto [code, bytes] = co_await net::async_read(socket, net::buffer(&message, sizeof message), nothrow);
  if (code) co_return broken(code);
  co_return message;
}

template <class Message>
net::awaitable<Result<void>> write(Socket& socket, Message message) {
  auto [code, bytes] = co_await net::async_write(socket, net::buffer(&message, sizeof message), nothrow);
  if (code) co_return broken(code);
  co_return Result<void>();
}

}  // namespace

net::awaitable<Result<Reception>> greet(Socket& socket, const Group& group, const End& to, bool tcp_only) {
  const Hello hello{.magic = magic,
                    .version = version,
                    .attempt = group.attempt,
                    .from = group.rank,
                    .to = to.rank,
                    .size = group.size,
                    .lane = static_cast<std::uint16_t>(to.lane),
                    .tcp_only = tcp_only,
                    .job = XXH3_64bits(group.job_id.data(), group.job_id.size()),
                    .nonce = random_digest()};
  if (auto sent = co_await write(socket, hello); !sent) co_return sent.error();
  auto answer = co_await read<Answer>(socket);
  if (!answer) co_return answer.error();
  if (answer->magic != magic) co_return Error{Errc::malformed, "the other side is no gradient port"};
  if (answer->verdict != Verdict::welcome) co_return refusal(answer->verdict);
  if (!equal_in_constant_time(answer->proof, proof(group, called, hello, answer->nonce))) {
    co_return Error{Errc::unauthenticated, "the other side does not know the group's secret"};
  }
  if (auto sent = co_await write(socket, proof(group, caller, hello, answer->nonce)); !sent) co_return sent.error();
  auto last = co_await read<Final>(socket);
  if (!last) co_return last.error();
  if (last->magic != magic) co_return Error{Errc::malformed, "the handshake does not end as it should"};
  if (last->verdict == Verdict::call_locally && !tcp_only) co_return Reception::call_locally;
  if (last->verdict != Verdict::welcome) co_return refusal(last->verdict);
  co_return Reception::welcome;
}

net::awaitable<Result<Caller>> admit(Socket& socket, const Group& group, bool local_wanted) {
  auto hello = co_await read<Hello>(socket);
  if (!hello) co_return hello.error();
  if (hello->magic != magic) co_return Error{Errc::malformed, "a stranger on the gradient port"};
  if (hello->version != version) {
    co_return Error{Errc::unsupported, "handshake of version " + std::to_string(hello->version)};
  }
  Answer answer{.magic = magic};
  const bool same_group = hello->attempt == group.attempt && hello->size == group.size && hello->to == group.rank &&
                          hello->from > group.rank && hello->from < group.size && hello->lane < group.lanes &&
                          hello->job == XXH3_64bits(group.job_id.data(), group.job_id.size());
  if (!same_group) {
    answer.verdict = Verdict::other_group;
    if (auto sent = co_await write(socket, answer); !sent) co_return sent.error();
    co_return Error{Errc::conflict, "a call from rank " + std::to_string(hello->from) + " of attempt " +
                                        std::to_string(hello->attempt) + ", which is not of this group"};
  }
  answer.nonce = random_digest();
  answer.proof = proof(group, called, *hello, answer.nonce);
  if (auto sent = co_await write(socket, answer); !sent) co_return sent.error();
  auto proved = co_await read<Digest>(socket);
  if (!proved) co_return proved.error();
  const bool right = equal_in_constant_time(*proved, proof(group, caller, *hello, answer.nonce));
  const bool local = local_wanted && hello->tcp_only == 0;
  const Final last{magic, !right ? Verdict::not_proved : local ? Verdict::call_locally : Verdict::welcome};
  if (auto sent = co_await write(socket, last); !sent) co_return sent.error();
  if (!right) co_return Error{Errc::unauthenticated, "a caller does not know the group's secret"};
  co_return Caller{.end = {.rank = hello->from, .lane = hello->lane},
                   .reception = local ? Reception::call_locally : Reception::welcome};
}

std::string local_name(const Group& group, std::uint32_t rank, std::uint16_t port) {
  constexpr std::string_view purpose = "weir gradients: local";
  const std::array<std::uint64_t, 3> who{group.attempt, rank, port};
  const Digest digest = hmac_sha256(group.secret, {std::as_bytes(std::span(purpose)), std::as_bytes(std::span(who)),
                                                   std::as_bytes(std::span(group.job_id))});
  return std::string(1, '\0') + "weir-" + hex(digest);
}

}  // namespace weir::collectives
