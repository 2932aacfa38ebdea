#pragma once
#include <concepts>
#include <initializer_list>
#include <span>

namespace lockstep {

/// Elements that a call reads while it lasts: of a vector, an array, a span, or a list in braces.
/// As a parameter only: it holds nothing.
template <class T>
class ListView : public std::span<const T> {
 public:
  ListView(std::initializer_list<T> list) : std::span<const T>(list.begin(), list.size()) {}
  template <class Range>
  requires std::convertible_to<const Range&, std::span<const T>> ListView(const Range& range)
      : std::span<const T>(std::span<const T>(range)) {}
};

}  // namespace lockstep
