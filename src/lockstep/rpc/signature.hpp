#pragma once

// The parameter and result types of a pointer to a function or member function.

namespace lockstep::rpc::detail {

template <class... T>
struct Types {};

/// `Plain` is the pointer's type without noexcept.
template <class F>
struct SignatureOf;
template <class R, class... P, bool N>
struct SignatureOf<R (*)(P...) noexcept(N)> {
  using Result = R;
  using Object = void;
  using Parameters = Types<P...>;
  using Plain = R (*)(P...);
};
template <class R, class C, class... P, bool N>
struct SignatureOf<R (C::*)(P...) noexcept(N)> {
  using Result = R;
  using Object = C;
  using Parameters = Types<P...>;
  using Plain = R (C::*)(P...);
};
template <class R, class C, class... P, bool N>
struct SignatureOf<R (C::*)(P...) const noexcept(N)> {
  using Result = R;
  using Object = C;
  using Parameters = Types<P...>;
  using Plain = R (C::*)(P...) const;
};

}  // namespace lockstep::rpc::detail
