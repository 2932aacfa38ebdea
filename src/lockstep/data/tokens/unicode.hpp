#pragma once
namespace lockstep {

/// Unicode's general categories L* and N*, and its property White_Space.
[[nodiscard]] bool is_letter(char32_t code);
[[nodiscard]] bool is_number(char32_t code);
[[nodiscard]] bool is_white_space(char32_t code);

}  // namespace lockstep
