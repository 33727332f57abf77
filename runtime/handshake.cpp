#include "runtime/handshake.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "base/errc.hpp"
#include "base/printable.hpp"
#include "runtime/serialize.hpp"

namespace weir::runtime {
namespace {

constexpr std::size_t name_bytes_max = 256;
constexpr std::size_t refusal_bytes_max = 300;

struct Hello {
  std::uint32_t version = 0;
  std::uint64_t process = 0;
  std::string name;
  std::string account;
  Digest nonce{};
};

template <class T>
Bytes body_of(const T& value) {
  Bytes body;
  std::vector<Segment> none;
  Writer out(body, none);
  write_value(out, value);
  return body;
}

template <class T>
Result<T> value_of(BytesView body) {
  Reader in(body, {});
  return read_value<T>(in);
}

template <class T>
BytesView bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

Handshake::Handshake(Role role, const Secrets& secrets, Identity own)
    : role_(role), secrets_(secrets), own_(std::move(own)), own_nonce_(random_digest()) {
  if (role_ == Role::listen) own_.account.clear();
}

std::optional<Handshake::Reply> Handshake::open() const {
  if (role_ == Role::connect) return hello();
  return std::nullopt;
}

Handshake::Reply Handshake::hello() const {
  return {FrameKind::hello, body_of(Hello{protocol_version, own_.process, own_.name, own_.account, own_nonce_})};
}

Handshake::Reply Handshake::proof() const { return {FrameKind::proof, body_of(expected(role_))}; }

Handshake::Reply Handshake::refuse(const Error& why) { return {FrameKind::refuse, body_of(why)}; }

Digest Handshake::expected(Role prover) const {
  const bool connecting = role_ == Role::connect;
  // An unknown account fails in the same way and in the same time as a wrong secret.
  std::string secret = secrets_(account()).value_or("");
  if (secret.empty()) {
    const Digest nobodys = random_digest();
    secret.assign(reinterpret_cast<const char*>(nobodys.data()), nobodys.size());
  }
  const std::string_view label =
      prover == Role::connect ? "weir connect" : "weir  listen";  // both have the same length
  return hmac_sha256(
      secret,
      {std::as_bytes(std::span(label)), bytes_of(protocol_version), BytesView(connecting ? own_nonce_ : peer_nonce_),
       BytesView(connecting ? peer_nonce_ : own_nonce_), bytes_of(connecting ? own_.process : peer_.process),
       bytes_of(connecting ? peer_.process : own_.process), std::as_bytes(std::span(account()))});
}

Result<std::optional<Handshake::Reply>> Handshake::receive(const FrameView& frame) {
  const bool may_refuse = role_ == Role::connect || state_ != State::hello;  // who calls says first who it is
  if (frame.kind == FrameKind::refuse && may_refuse) {
    Error why;
    Reader in(frame.body, {});
    Codec<Error>::read(in, why);
    if (auto whole = in.finish(); !whole) return whole.error().within("handshake");
    why.context.resize(std::min(why.context.size(), refusal_bytes_max));
    why.context = printable_line(why.context);  // a stranger's words, which go into a log or onto a terminal
    return why.within("refused by the peer");
  }
  if (state_ == State::hello && frame.kind == FrameKind::hello) return receive_hello(frame.body);
  if (state_ == State::proof && frame.kind == FrameKind::proof) return receive_proof(frame.body);
  return Error{Errc::malformed, "a frame that does not belong into a handshake"};
}

Result<std::optional<Handshake::Reply>> Handshake::receive_hello(BytesView body) {
  // The version comes first and is checked alone: other versions may have a different hello.
  Reader version_reader(body, {});
  std::uint32_t version = 0;
  if (version_reader.number(version) && version != protocol_version) {
    return Error{Errc::unsupported, "the peer speaks protocol version " + std::to_string(version) + ", this build " +
                                        std::to_string(protocol_version)};
  }
  auto hello_in = value_of<Hello>(body);
  if (!hello_in) return hello_in.error().within("handshake");
  if (hello_in->name.size() > name_bytes_max || hello_in->account.size() > name_bytes_max) {
    return Error{Errc::malformed, "handshake: the name is too long"};
  }
  if (hello_in->process == own_.process) return Error{Errc::conflict, "a process cannot be its own peer"};
  // The name goes into logs. The account stays as it came: it is part of what both ends prove.
  peer_ = {hello_in->process, printable_line(hello_in->name), std::move(hello_in->account)};
  peer_nonce_ = hello_in->nonce;
  state_ = State::proof;
  return role_ == Role::connect ? proof() : hello();
}

Result<std::optional<Handshake::Reply>> Handshake::receive_proof(BytesView body) {
  const auto given = value_of<Digest>(body);
  if (!given) return given.error().within("handshake");
  const Role prover = role_ == Role::connect ? Role::listen : Role::connect;
  if (!equal_in_constant_time(*given, expected(prover))) {
    return Error{Errc::unauthenticated, "the peer does not know the secret that lets it in"};
  }
  state_ = State::done;
  if (role_ == Role::listen) return std::optional<Reply>(proof());
  return std::optional<Reply>();
}

}  // namespace weir::runtime
