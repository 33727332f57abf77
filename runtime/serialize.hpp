#pragma once

#include <array>
#include <bit>
#include <boost/pfr/core.hpp>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/errc.hpp"
#include "base/result.hpp"
#include "runtime/fwd.hpp"

namespace weir::runtime {

static_assert(std::endian::native == std::endian::little, "messages are little endian and copied as they are");

/// Writes values to a message body. Plain aggregates need no code: their members are written in order of declaration.
class Writer {
 public:
  Writer(Bytes& body, std::vector<Segment>& segments) : body_(body), segments_(segments) {}

  void raw(const void* data, std::size_t count) {
    const auto* first = static_cast<const std::byte*>(data);
    body_.insert(body_.end(), first, first + count);
  }
  template <class T>
    requires std::is_arithmetic_v<T>
  void number(T value) {
    raw(&value, sizeof value);
  }
  /// Writes the length of a string or list. A body holds less than 4 GiB; the frame refuses larger ones.
  void count(std::size_t value) { number(static_cast<std::uint32_t>(value)); }
  void segment(const Segment& value) { segments_.push_back(value); }

 private:
  Bytes& body_;
  std::vector<Segment>& segments_;
};

/// Reads values from untrusted bytes. Every read checks its bounds and allocates no more than the body can fill; after
/// the first failure all reads fail.
class Reader {
 public:
  /// `router` is for the ActorRefs in the message, which without one are read as empty.
  Reader(BytesView body, std::span<const Segment> segments, const std::shared_ptr<Router>* router = nullptr)
      : body_(body), segments_(segments), router_(router) {}

  bool raw(void* data, std::size_t count) {
    if (count > body_.size()) return fail("the message ends too early");
    if (count != 0) std::memcpy(data, body_.data(), count);
    body_ = body_.subspan(count);
    return true;
  }
  template <class T>
    requires std::is_arithmetic_v<T>
  bool number(T& value) {
    return raw(&value, sizeof value);
  }
  /// Reads the length of a list whose items take at least `least` bytes each.
  bool count(std::size_t& value, std::size_t least) {
    std::uint32_t n = 0;
    if (!number(n)) return false;
    if (n > body_.size() / (least == 0 ? 1 : least)) return fail("a list is longer than its message");
    value = n;
    return true;
  }
  bool segment(Segment& value) {
    if (next_segment_ >= segments_.size()) return fail("a segment is missing");
    value = segments_[next_segment_++];
    return true;
  }
  bool fail(const char* why) {
    if (why_ == nullptr) why_ = why;
    body_ = {};
    return false;
  }

  /// Checks that all reads succeeded and that nothing is left over. Fails with: malformed.
  Result<void> finish() const {
    if (why_ != nullptr) return Error{Errc::malformed, why_};
    if (!body_.empty() || next_segment_ != segments_.size()) return Error{Errc::malformed, "bytes are left over"};
    return {};
  }

  std::size_t left() const { return body_.size(); }
  const std::shared_ptr<Router>* router() const { return router_; }

  /// Limits the depth of nesting, so that values of recursive types cannot exhaust the stack.
  bool enter() { return ++depth_ <= depth_max || fail("values are nested too deep"); }
  void leave() { --depth_; }

 private:
  static constexpr int depth_max = 64;
  BytesView body_;
  std::span<const Segment> segments_;
  std::size_t next_segment_ = 0;
  const std::shared_ptr<Router>* router_;
  const char* why_ = nullptr;
  int depth_ = 0;
};

/// Defines how a T is written and read. Specialize it for a class that is not a plain aggregate:
/// `static void write(Writer&, const T&)` and `static bool read(Reader&, T&)`.
template <class T>
struct Codec {
  static_assert(std::is_aggregate_v<T>, "a message holds plain aggregates, or types with a Codec");
  static void write(Writer& out, const T& value) {
    boost::pfr::for_each_field(
        value, [&out](const auto& field) { Codec<std::remove_cvref_t<decltype(field)>>::write(out, field); });
  }
  static bool read(Reader& in, T& value) {
    if (!in.enter()) return false;
    bool good = true;
    boost::pfr::for_each_field(value, [&in, &good](auto& field) {
      good = good && Codec<std::remove_cvref_t<decltype(field)>>::read(in, field);
    });
    in.leave();
    return good;
  }
};

template <class T>
  requires(std::is_arithmetic_v<T> && !std::same_as<T, bool>)
struct Codec<T> {
  static void write(Writer& out, T value) { out.number(value); }
  static bool read(Reader& in, T& value) { return in.number(value); }
};

template <>
struct Codec<bool> {
  static void write(Writer& out, bool value) { out.number(static_cast<std::uint8_t>(value)); }
  static bool read(Reader& in, bool& value) {
    std::uint8_t byte = 0;
    if (!in.number(byte)) return false;
    if (byte > 1) return in.fail("a truth value is neither 0 nor 1");
    value = byte != 0;
    return true;
  }
};

/// An enum whose values count from 0 without gaps. `last_value(T)`, declared beside the enum, returns the last of them;
/// a number beyond it is malformed.
///
///     enum class Outcome : std::uint8_t { finished, failed };
///     constexpr Outcome last_value(Outcome) { return Outcome::failed; }
template <class T>
  requires std::is_enum_v<T>
struct Codec<T> {
  using Number = std::underlying_type_t<T>;
  static void write(Writer& out, T value) { out.number(static_cast<Number>(value)); }
  static bool read(Reader& in, T& value) {
    Number number{};
    if (!in.number(number)) return false;
    if (number > static_cast<Number>(last_value(T{}))) return in.fail("an enum's number is beyond its last value");
    value = static_cast<T>(number);
    return true;
  }
};

template <>
struct Codec<std::byte> {
  static void write(Writer& out, std::byte value) { out.raw(&value, 1); }
  static bool read(Reader& in, std::byte& value) { return in.raw(&value, 1); }
};

template <>
struct Codec<std::string> {
  static void write(Writer& out, const std::string& value) {
    out.count(value.size());
    out.raw(value.data(), value.size());
  }
  static bool read(Reader& in, std::string& value) {
    std::size_t n = 0;
    if (!in.count(n, 1)) return false;
    value.resize(n);
    return in.raw(value.data(), n);
  }
};

template <>
struct Codec<Segment> {
  static void write(Writer& out, const Segment& value) { out.segment(value); }
  static bool read(Reader& in, Segment& value) { return in.segment(value); }
};

/// True for types whose lists are copied as one block.
template <class T>
inline constexpr bool is_flat = (std::is_arithmetic_v<T> && !std::same_as<T, bool>) || std::same_as<T, std::byte>;

template <class T>
struct Codec<std::vector<T>> {
  static void write(Writer& out, const std::vector<T>& value) {
    out.count(value.size());
    if constexpr (is_flat<T>) {
      out.raw(value.data(), value.size() * sizeof(T));
    } else {
      for (const T& item : value) Codec<T>::write(out, item);
    }
  }
  static bool read(Reader& in, std::vector<T>& value) {
    std::size_t n = 0;
    value.clear();
    if constexpr (is_flat<T>) {
      if (!in.count(n, sizeof(T))) return false;
      value.resize(n);
      return in.raw(value.data(), n * sizeof(T));
    } else {
      if (!in.count(n, 1) || !in.enter()) return false;
      for (std::size_t i = 0; i < n; ++i) {  // grows as items really come: a hostile count reserves nothing
        T item{};
        if (!Codec<T>::read(in, item)) return false;
        value.push_back(std::move(item));
      }
      in.leave();
      return true;
    }
  }
};

template <class T, std::size_t N>
struct Codec<std::array<T, N>> {
  static void write(Writer& out, const std::array<T, N>& value) {
    if constexpr (is_flat<T>) return out.raw(value.data(), sizeof value);
    for (const T& item : value) Codec<T>::write(out, item);
  }
  static bool read(Reader& in, std::array<T, N>& value) {
    if constexpr (is_flat<T>) return in.raw(value.data(), sizeof value);
    for (T& item : value) {
      if (!Codec<T>::read(in, item)) return false;
    }
    return true;
  }
};

template <class K, class V>
struct Codec<std::map<K, V>> {
  static void write(Writer& out, const std::map<K, V>& value) {
    out.count(value.size());
    for (const auto& [key, item] : value) {
      Codec<K>::write(out, key);
      Codec<V>::write(out, item);
    }
  }
  static bool read(Reader& in, std::map<K, V>& value) {
    std::size_t n = 0;
    value.clear();
    if (!in.count(n, 1) || !in.enter()) return false;
    for (std::size_t i = 0; i < n; ++i) {
      K key{};
      V item{};
      if (!Codec<K>::read(in, key) || !Codec<V>::read(in, item)) return false;
      if (!value.emplace(std::move(key), std::move(item)).second) return in.fail("a key stands twice in a map");
    }
    in.leave();
    return true;
  }
};

template <class T>
struct Codec<std::optional<T>> {
  static void write(Writer& out, const std::optional<T>& value) {
    Codec<bool>::write(out, value.has_value());
    if (value) Codec<T>::write(out, *value);
  }
  static bool read(Reader& in, std::optional<T>& value) {
    bool present = false;
    value.reset();
    if (!Codec<bool>::read(in, present)) return false;
    return !present || Codec<T>::read(in, value.emplace());
  }
};

template <class... T>
struct Codec<std::tuple<T...>> {
  static void write(Writer& out, const std::tuple<T...>& value) {
    std::apply([&out](const auto&... item) { (Codec<std::remove_cvref_t<decltype(item)>>::write(out, item), ...); },
               value);
  }
  static bool read(Reader& in, std::tuple<T...>& value) {
    return std::apply(
        [&in](auto&... item) { return (Codec<std::remove_cvref_t<decltype(item)>>::read(in, item) && ...); }, value);
  }
};

template <class A, class B>
struct Codec<std::pair<A, B>> {
  static void write(Writer& out, const std::pair<A, B>& value) {
    Codec<A>::write(out, value.first);
    Codec<B>::write(out, value.second);
  }
  static bool read(Reader& in, std::pair<A, B>& value) {
    return Codec<A>::read(in, value.first) && Codec<B>::read(in, value.second);
  }
};

template <class Rep, class Period>
struct Codec<std::chrono::duration<Rep, Period>> {
  static void write(Writer& out, std::chrono::duration<Rep, Period> value) { out.number(value.count()); }
  static bool read(Reader& in, std::chrono::duration<Rep, Period>& value) {
    Rep count{};
    if (!in.number(count)) return false;
    value = std::chrono::duration<Rep, Period>(count);
    return true;
  }
};

/// The category travels by name. A category that the receiver does not know becomes Errc::internal with its message.
template <>
struct Codec<Error> {
  static void write(Writer& out, const Error& value);
  static bool read(Reader& in, Error& value);
};

template <class T>
struct Codec<Result<T>> {
  static void write(Writer& out, const Result<T>& value) {
    Codec<bool>::write(out, value.has_value());
    if (value.has_error()) {
      Codec<Error>::write(out, value.error());
    } else if constexpr (!std::is_void_v<T>) {
      Codec<T>::write(out, *value);
    }
  }
  static bool read(Reader& in, Result<T>& value) {
    bool good = false;
    if (!Codec<bool>::read(in, good)) return false;
    if (!good) {
      Error error;
      if (!Codec<Error>::read(in, error)) return false;
      value = std::move(error);
      return true;
    }
    if constexpr (std::is_void_v<T>) {
      value = Result<void>();
      return true;
    } else {
      T item{};
      if (!Codec<T>::read(in, item)) return false;
      value = std::move(item);
      return true;
    }
  }
};

/// Writes one value as a whole body.
template <class T>
void write_value(Writer& out, const T& value) {
  Codec<T>::write(out, value);
}

/// Reads one value that must fill the whole body. Fails with: malformed.
template <class T>
Result<T> read_value(Reader& in) {
  T value{};
  Codec<T>::read(in, value);
  // In place: a T whose first member is an Error could be built from one.
  if (auto done = in.finish(); !done) return Result<T>(boost::system::in_place_error, done.error());
  return Result<T>(boost::system::in_place_value, std::move(value));
}

}  // namespace weir::runtime
