#pragma once

namespace weir {

/// A list of types for loops at compile time.
template <class... T>
struct TypeList {
  /// Calls `visit.template operator()<T>()` for each, in order.
  template <class Visit>
  static void for_each(Visit&& visit) {
    (visit.template operator()<T>(), ...);
  }
};

}  // namespace weir
