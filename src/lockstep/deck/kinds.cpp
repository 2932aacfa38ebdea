#include <lockstep/deck/kinds.hpp>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/deck/did_you_mean.hpp>

namespace lockstep::detail {

void refuse_second_kind(std::string_view name) {
  throw Error(
      fmt::format("the kind \"{}\" cannot be added: another kind has the same name or options "
                  "type. Add each kind once, with options of its own.",
                  name));
}

void refuse_unknown_kind(std::string_view name, const std::vector<std::string_view>& known) {
  throw InputError(
      fmt::format("there is no kind \"{}\" here. {}", name, did_you_mean(name, known)));
}

void refuse_unknown_options() {
  throw Error("these options belong to no kind. Add the kind before using its options.");
}

}  // namespace lockstep::detail
