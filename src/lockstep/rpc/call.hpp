#pragma once
#include <exception>
#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include <lockstep/rpc/archive.hpp>
#include <lockstep/rpc/draft.hpp>
#include <lockstep/rpc/function.hpp>
#include <lockstep/rpc/future.hpp>
#include <lockstep/rpc/owned_object.hpp>
#include <lockstep/rpc/reply.hpp>
#include <lockstep/rpc/rref.hpp>
#include <lockstep/rpc/signature.hpp>

// Typed remote calls.

namespace lockstep::rpc {

namespace detail {

/// The result that the caller of a function returning R gets: for a Future its value.
template <class R>
struct AnswerOf {
  using Type = std::remove_cvref_t<R>;
  static constexpr bool later = false;
};
template <class T>
struct AnswerOf<Future<T>> {
  using Type = T;
  static constexpr bool later = true;
};
template <class R>
using Answer = typename AnswerOf<std::remove_cvref_t<R>>::Type;

/// The type of the object behind a reference to an R result.
template <class T>
struct ObjectOf {
  using Type = T;
};
template <class T>
struct ObjectOf<std::unique_ptr<T>> {
  using Type = T;
};
template <class T>
struct ObjectOf<std::shared_ptr<T>> {
  using Type = T;
};
template <class R>
using Object = typename ObjectOf<Answer<R>>::Type;

template <class T>
inline constexpr bool has_archives =
    cereal::traits::is_output_serializable<T, OutputArchive>::value&&
        cereal::traits::is_input_serializable<T, InputArchive>::value;
/// cereal checks a container or a pointer, but not the type of its elements.
template <class T>
struct Sendable : std::bool_constant<has_archives<T>> {};
template <>
struct Sendable<void> : std::true_type {};
template <class T>
struct Sendable<std::unique_ptr<T>> : Sendable<T> {};
template <class T>
struct Sendable<std::shared_ptr<T>> : Sendable<T> {};
template <class A, class B>
struct Sendable<std::pair<A, B>>
    : std::conjunction<Sendable<std::remove_const_t<A>>, Sendable<std::remove_const_t<B>>> {};
template <class... T>
struct Sendable<std::tuple<T...>> : std::conjunction<Sendable<T>...> {};
template <class T>
requires requires {
  typename T::value_type;
} &&(!std::is_same_v<typename T::value_type, T>)struct Sendable<T>
    : std::bool_constant<has_archives<T> && Sendable<typename T::value_type>::value> {
};
template <class T>
inline constexpr bool is_sendable = Sendable<T>::value;

template <class T>
void write_object(OutputArchive& archive, const void* object) {
  archive(*static_cast<const T*>(object));
}
template <class T>
void raise_object(void* object) {
  throw static_cast<T*>(object);
}
template <class T>
[[nodiscard]] const ObjectType& type_of_object() noexcept {
  static const ObjectType type = [] {
    ObjectType made{.number = number_of_type<T>(), .raise = &raise_object<T>};
    if constexpr (is_sendable<T>) made.write = &write_object<T>;
    return made;
  }();
  return type;
}

template <class T>
std::shared_ptr<T> as_object(T value) {
  return std::make_shared<T>(std::move(value));
}
template <class T>
std::shared_ptr<T> as_object(std::unique_ptr<T> value) {
  return value;
}
template <class T>
std::shared_ptr<T> as_object(std::shared_ptr<T> value) {
  return value;
}

/// Sends the result of a call, or keeps it as an object for a reference.
template <class T>
void conclude(const Reply& reply, Held<T>&& value) {
  if (reply.keeps_result()) {
    using Kept = typename ObjectOf<Held<T>>::Type;
    return reply.keep(as_object(std::move(value)), type_of_object<Kept>());
  }
  if constexpr (is_sendable<T>) {
    Draft draft(reply);
    if constexpr (!std::is_void_v<T>) {
      OutputArchive archive(draft.message());
      archive(value);
    }
    draft.send_answer(reply);
  } else {
    throw Error("the result's type cannot be sent: use rpc::remote");
  }
}

/// The same for a function that answers later.
template <class T>
void conclude_later(const Reply& reply, const Future<T>& future) {
  if (!future.valid()) throw Error("the function returned a Future that can never complete");
  future.then([reply, number = reply.postpone()](const Future<T>& done) {
    if (!reply.resume(number)) return;  // nobody waits any more
    try {
      if (done.state()->failed()) std::rethrow_exception(done.state()->failure());
      if constexpr (std::is_void_v<T>) {
        conclude<T>(reply, Unit{});
      } else {
        conclude<T>(reply, Held<T>(done.wait()));
      }
    } catch (...) {
      reply.fail(std::current_exception());
    }
    reply.end();
  });
}

/// Reads arguments that another rank has sent: whatever is wrong with them, they are malformed.
template <class... T>
void read(IncomingMessage& message, T&... values) {
  try {
    InputArchive archive(message);
    (static_cast<void>(archive(values)), ...);
    archive.expect_end();
  } catch (const MalformedMessage&) {
    throw;
  } catch (const std::exception&) {
    throw MalformedMessage("a message was refused: " + text_of(std::current_exception()));
  }
}

/// The object that a method is called on, which is the first argument.
struct Target {
  std::uint64_t reference = 0, type = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(reference, type);
  }
};
/// Waits for it. Throws.
[[nodiscard]] std::shared_ptr<OwnedObject> object_of(const Execution& execution,
                                                     const Target& target);

template <auto F, class R, class C, class... P>
void execute(Execution& execution, Types<P...>) {
  std::tuple<std::remove_cvref_t<P>...> arguments;
  const Reply& reply = execution.reply();
  std::shared_ptr<OwnedObject> place;
  std::conditional_t<std::is_void_v<C>, void*, C*> object = nullptr;
  if constexpr (std::is_void_v<C>) {
    std::apply([&](auto&... values) { read(execution.message(), values...); }, arguments);
  } else {
    Target target;
    std::apply([&](auto&... values) { read(execution.message(), target, values...); }, arguments);
    place = object_of(execution, target);
    object = &place->bases.as<C>(*place->type, place->object.get());
  }
  const auto call = [&]() -> R {
    return std::apply(
        [&](auto&... values) -> R {
          if constexpr (std::is_void_v<C>) {
            return F(static_cast<P&&>(values)...);
          } else {
            return (object->*F)(static_cast<P&&>(values)...);
          }
        },
        arguments);
  };
  using A = Answer<R>;
  if constexpr (AnswerOf<std::remove_cvref_t<R>>::later) {
    conclude_later<A>(reply, call());
    return;  // counted when it has been answered
  } else if constexpr (std::is_void_v<A>) {
    call();
    conclude<A>(reply, Unit{});
  } else {
    conclude<A>(reply, Held<A>(call()));
  }
  reply.end();
}

/// The registration of one function.
template <auto F>
struct Registered {
  using Signature = SignatureOf<decltype(F)>;
  static void run(Execution& execution) {
    execute<F, typename Signature::Result, typename Signature::Object>(
        execution, typename Signature::Parameters{});
  }
  static bool add(const char* name) {
    // Not a static member: static members of templates are initialised in no defined order.
    static Function function{.name = name,
                             .pointer = pointer_to(F),
                             .signature_text = typeid(decltype(F)).name(),
                             .execute = &run};
    add_function(function);
    return true;
  }
};

/// A call's future: reads its value from the answer.
template <class T>
class CallState final : public ValueState<T> {
 public:
  static IntrusivePtr<ValueState<T>> make() {
    return IntrusivePtr<ValueState<T>>(ObjectPool<CallState>::instance().make());
  }
  void receive(IncomingMessage& message) override {
    if constexpr (std::is_void_v<T>) {
      read(message);
      this->value.emplace();
    } else {
      Held<T> value{};
      read(message, value);
      this->value.emplace(std::move(value));
    }
  }

 private:
  friend class ObjectPool<CallState>;
  CallState() = default;
  ~CallState() override = default;
  void release() noexcept override { ObjectPool<CallState>::instance().recycle(this); }
};

/// An argument in the type of its parameter.
template <class P, class A>
void write_as(OutputArchive& archive, A&& argument) {
  using Wanted = std::remove_cvref_t<P>;
  static_assert(!std::is_lvalue_reference_v<P> || std::is_const_v<std::remove_reference_t<P>>,
                "a function that is called remotely cannot change its caller's variables: take "
                "values or const references, and return the new values");
  static_assert(!std::is_pointer_v<Wanted>,
                "a pointer is not valid on another rank: pass the value, or an RRef");
  static_assert(std::is_convertible_v<A&&, Wanted>,
                "an argument of this call cannot be converted to its parameter's type");
  static_assert(is_sendable<Wanted>,
                "a parameter's type cannot be sent: give it a "
                "serialize() member, or include cereal's header for it");
  if constexpr (std::is_same_v<std::remove_cvref_t<A>, Wanted>) {
    archive(argument);
  } else {
    const Wanted wanted = std::forward<A>(argument);
    archive(wanted);
  }
}

[[nodiscard]] inline const Function& registered(const FunctionPointer& pointer) {
  const Function* const function = find_function(pointer);
  if (!function) throw_unregistered();
  return *function;
}

template <class... P, class... A>
void write_arguments(Draft& draft, const Target* target, Types<P...>, A&&... arguments) {
  static_assert(sizeof...(P) == sizeof...(A),
                "the number of arguments differs from the function's number of parameters");
  OutputArchive archive(draft.message());
  if (target) archive(*target);
  (write_as<P>(archive, std::forward<A>(arguments)), ...);
}

template <class F, class... A>
auto start_call(const To& to, F function, const Target* target, A&&... arguments) {
  using Signature = SignatureOf<F>;
  using T = Answer<typename Signature::Result>;
  static_assert(is_sendable<T>,
                "this function returns a type that cannot be sent: call it with remote(), which "
                "keeps its result where it is, or give the type a serialize() member");
  auto state = CallState<T>::make();
  Draft draft(Kind::call, to);
  const Function& called = registered(pointer_to(function));
  write_arguments(draft, target, typename Signature::Parameters{}, std::forward<A>(arguments)...);
  draft.send_call(called, state);
  return Future<T>(std::move(state));
}

/// The type of a function or method that runs on an object's owner.
template <class T, class... P, class... A>
Future<T> start_call_of_object(const ReferenceHandle& object, const Function& function,
                               std::chrono::milliseconds timeout, Types<P...> parameters,
                               A&&... arguments) {
  const Target target{.reference = object.reference(), .type = object.type()};
  auto state = CallState<T>::make();
  Draft draft(object, timeout);
  write_arguments(draft, &target, parameters, std::forward<A>(arguments)...);
  draft.send_call(function, state);
  return Future<T>(std::move(state));
}

/// A call whose result stays there as an object.
template <class F, class... A>
auto start_creation(const To& to, F function, const ReferenceHandle* object, A&&... arguments) {
  using Signature = SignatureOf<F>;
  using T = Object<typename Signature::Result>;
  static_assert(!std::is_void_v<T>, "remote() needs a function that returns a value");
  Draft draft(Kind::create, to);
  const Function& called = registered(pointer_to(function));
  draft.make_object(number_of_type<T>());
  Target target;
  if (object) {
    target = {.reference = object->reference(), .type = object->type()};
    draft.bring(*object);
  }
  write_arguments(draft, object ? &target : nullptr, typename Signature::Parameters{},
                  std::forward<A>(arguments)...);
  draft.send_call(called, {});
  return RRef<T>(draft.object());
}

}  // namespace detail

/// Calls `function`, registered by LOCKSTEP_RPC, on worker `to` with copies of the arguments,
/// converted here to its parameters' types. Tensors above Options::inline_bytes are sent from their
/// own memory: do not change them until the future has completed. The future's value is the
/// function's result; if the function returns a Future, it is that Future's value. Throws
/// InputError if there is no such worker or the function is not registered here; CommError after
/// shutdown.
template <class R, class... P, class... A>
[[nodiscard]] auto rpc_async(const To& to, R (*function)(P...), A&&... arguments) {
  return detail::start_call(to, function, nullptr, std::forward<A>(arguments)...);
}

/// The same, and waits for the value.
template <class R, class... P, class... A>
auto rpc_sync(const To& to, R (*function)(P...), A&&... arguments) {
  return detail::start_call(to, function, nullptr, std::forward<A>(arguments)...).wait();
}

/// The same, but the result stays on worker `to` as an object; returns a reference to it at once.
/// If the function throws, each request for the object throws that error. If a function returns a
/// std::unique_ptr or std::shared_ptr, the object is its pointee; null is an error.
template <class R, class... P, class... A>
[[nodiscard]] auto remote(const To& to, R (*function)(P...), A&&... arguments) {
  return detail::start_creation(to, function, nullptr, std::forward<A>(arguments)...);
}

// ---- RRef's calls

template <class T>
template <class M>
constexpr void RRef<T>::expect_method() {
  static_assert(std::is_convertible_v<T*, typename detail::SignatureOf<M>::Object*>,
                "the method must belong to the object's class or to a public base of it");
}

template <class T>
template <class M, class... A>
auto RRef<T>::rpc_async(M method, A&&... arguments) const {
  return call_within(std::chrono::milliseconds{0}, method, std::forward<A>(arguments)...);
}
template <class T>
template <class M, class... A>
auto RRef<T>::rpc_sync(M method, A&&... arguments) const {
  return rpc_async(method, std::forward<A>(arguments)...).wait();
}
template <class T>
template <class M, class... A>
auto RRef<T>::call_within(std::chrono::milliseconds timeout, M method, A&&... arguments) const {
  expect_method<M>();
  const ReferenceHandle& handle = held();
  const detail::Target target{.reference = handle.reference(), .type = handle.type()};
  auto future = detail::start_call(To(handle.owner()).within(timeout), method, &target,
                                   std::forward<A>(arguments)...);
  keep_until_done(future);
  return future;
}

template <class T>
template <class M, class... A>
auto RRef<T>::remote(M method, A&&... arguments) const {
  expect_method<M>();
  const ReferenceHandle& handle = held();
  return detail::start_creation(To(handle.owner()), method, &handle, std::forward<A>(arguments)...);
}

template <class T>
Future<T> RRef<T>::to_here_async(std::chrono::milliseconds timeout) const {
  static_assert(detail::is_sendable<T>, "an object of this type cannot be sent");
  auto future =
      detail::start_call_of_object<T>(held(), to_here_function(), timeout, detail::Types<>{});
  keep_until_done(future);
  return future;
}

template <class T>
RRef<T>::RRef(std::shared_ptr<T> object)
    : handle_(ReferenceHandle::adopt(std::move(object), detail::type_of_object<T>())) {}

template <class T>
void save(OutputArchive& archive, const RRef<T>& reference) {
  std::uint32_t index = nothing;
  if (reference.defined()) {
    OutgoingMessage& message = archive.message();
    index = message.add(reference.held().give(message.to()));
  }
  archive.write(&index, sizeof(index));
}
template <class T>
void load(InputArchive& archive, RRef<T>& reference) {
  std::uint32_t index = 0;
  archive.read(&index, sizeof(index));
  if (index == nothing) {
    reference = RRef<T>();
    return;
  }
  const auto& handles = archive.message().handles();
  if (index >= handles.size() || handles[index]->type() != number_of_type<T>()) {
    throw MalformedMessage("a message was refused: it does not carry this reference");
  }
  reference = RRef<T>(handles[index]);
}

}  // namespace lockstep::rpc

#define LOCKSTEP_RPC_PASTED(a, b) a##b
#define LOCKSTEP_RPC_JOINED(a, b) LOCKSTEP_RPC_PASTED(a, b)

/// Lets other ranks call a function, a static or a non-static member function (LOCKSTEP_RPC(T::m)),
/// under another name than its own. At namespace scope, once, in every program of the job.
// NOLINTBEGIN(bugprone-macro-parentheses): a pointer to a member takes none
#define LOCKSTEP_RPC_AS(name, function)                                                \
  [[maybe_unused]] static const bool LOCKSTEP_RPC_JOINED(lockstep_rpc_, __COUNTER__) = \
      ::lockstep::rpc::detail::Registered<&function>::add(name)
// NOLINTEND(bugprone-macro-parentheses)

/// Registers a function under its name as written here.
#define LOCKSTEP_RPC(function) LOCKSTEP_RPC_AS(#function, function)
