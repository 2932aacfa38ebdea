#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace lockstep::scaling {

using Json = nlohmann::ordered_json;

/// As files hold it. What is no UTF-8, such as the name of a file, is replaced.
[[nodiscard]] inline std::string text_of(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep::scaling
