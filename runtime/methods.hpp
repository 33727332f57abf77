#pragma once

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "base/result.hpp"

namespace weir::runtime {

namespace net = boost::asio;

/// A string literal as a template argument.
template <std::size_t N>
struct FixedString {
  char text[N];
  constexpr FixedString(const char (&literal)[N]) { std::copy_n(literal, N, text); }  // NOLINT: implicit by purpose
  constexpr std::string_view view() const { return {text, N - 1}; }
};

/// FNV-1a, computed at compile time: turns names into numbers that are the same in every build.
constexpr std::uint64_t name_hash(std::string_view text, std::uint64_t seed = 0xcbf29ce484222325u) {
  for (char c : text) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return seed;
}

/// Properties of a method pointer: its interface, its arguments by value, R of the Result<R> it returns, and whether it
/// is a coroutine.
template <class Pointer>
struct MethodTraits;

template <class T, class R, class... Args>
struct MethodTraits<net::awaitable<Result<R>> (T::*)(Args...)> {
  using Interface = T;
  using Value = R;
  using Arguments = std::tuple<std::remove_cvref_t<Args>...>;
  static constexpr bool suspends = true;
};

template <class T, class R, class... Args>
struct MethodTraits<Result<R> (T::*)(Args...)> {
  using Interface = T;
  using Value = R;
  using Arguments = std::tuple<std::remove_cvref_t<Args>...>;
  static constexpr bool suspends = false;
};

/// One entry of an interface's method list: the pointer and the name that goes over the wire.
template <auto Pointer, FixedString Name>
struct Method {
  static constexpr auto pointer = Pointer;
  static constexpr std::string_view name = Name.view();
};

template <class... Methods>
struct MethodList {};

/// Lists the methods of an actor interface. An interface is an abstract class with
///
///     static constexpr std::string_view type_name = "counter";
///     virtual net::awaitable<Result<int>> add(int amount) = 0;      // or plain Result<int>
///     static constexpr auto methods() { return runtime::methods<runtime::Method<&Counter::add, "add">>(); }
template <class... Methods>
constexpr MethodList<Methods...> methods() {
  return {};
}

namespace detail {

/// True if `Entry` is the Method of that pointer. Matched as a template argument: pointers to virtual members cannot be
/// compared in a constant expression.
template <auto Pointer, class Entry>
inline constexpr bool is_entry_of = false;
template <auto Pointer, FixedString Name>
inline constexpr bool is_entry_of<Pointer, Method<Pointer, Name>> = true;

template <auto Pointer, class T>
constexpr std::uint64_t find_method_id(MethodList<>) {
  static_assert(sizeof(T) == 0, "the method is missing in its interface's methods()");
  return 0;
}

template <auto Pointer, class T, class First, class... Rest>
constexpr std::uint64_t find_method_id(MethodList<First, Rest...>) {
  if constexpr (is_entry_of<Pointer, First>) {
    return name_hash(First::name, name_hash(".", name_hash(T::type_name)));
  } else if constexpr (sizeof...(Rest) == 0) {
    return 0;
  } else {
    return find_method_id<Pointer, T>(MethodList<Rest...>{});
  }
}

}  // namespace detail

/// The number of an interface on the wire.
template <class T>
inline constexpr std::uint64_t interface_id = name_hash(T::type_name);

/// The number of a method on the wire: the hash of "type_name.method_name".
template <auto Pointer>
constexpr std::uint64_t method_id() {
  using T = typename MethodTraits<decltype(Pointer)>::Interface;
  constexpr std::uint64_t id = detail::find_method_id<Pointer, T>(T::methods());
  static_assert(id != 0, "the method is missing in its interface's methods()");
  return id;
}

}  // namespace weir::runtime
