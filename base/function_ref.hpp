#pragma once

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

namespace weir {

/// A parameter for any function object that is called during the call only: it refers to the object and takes no memory
/// (as std::function_ref of C++26).
template <class Signature>
class FunctionRef;

template <class Result, class... Args>
class FunctionRef<Result(Args...)> {
 public:
  template <class Function>
    requires(!std::same_as<std::remove_cvref_t<Function>, FunctionRef> &&
             std::is_object_v<std::remove_reference_t<Function>> && std::is_invocable_r_v<Result, Function&, Args...>)
  FunctionRef(Function&& function)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(function)))),
        call_([](void* object, Args... args) -> Result {
          return (*static_cast<std::remove_reference_t<Function>*>(object))(std::forward<Args>(args)...);
        }) {}

  Result operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  Result (*call_)(void* object, Args... args);
};

}  // namespace weir
