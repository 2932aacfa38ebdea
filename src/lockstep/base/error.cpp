#include <lockstep/base/error.hpp>

#include <cstddef>

#include <lockstep/base/printable.hpp>

namespace lockstep {

std::string shortened(const std::string& text) {
  constexpr std::size_t longest = 2000, beginning = 1400, end = 500;
  std::string message = printable(text);
  if (message.size() <= longest) return message;
  const auto is_inside_character = [&](std::size_t at) {
    return (static_cast<unsigned char>(message[at]) & 0xC0U) == 0x80U;
  };
  std::size_t left = beginning, right = message.size() - end;
  while (left > 0 && is_inside_character(left)) --left;
  while (right < message.size() && is_inside_character(right)) ++right;
  return message.substr(0, left) + " ... (" + std::to_string(right - left) +
         " bytes are left out) ... " + message.substr(right);
}

}  // namespace lockstep

namespace lockstep::detail {

void assertion_failed(const char* condition, const char* file, int line) {
  throw Error(std::string("internal error: ") + condition + " does not hold at " + file + ":" +
              std::to_string(line) + ". Please report this with the run's log.");
}

}  // namespace lockstep::detail
