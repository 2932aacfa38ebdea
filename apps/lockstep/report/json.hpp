#pragma once
#include <nlohmann/json.hpp>

namespace lockstep::report {

using Json = nlohmann::ordered_json;

}  // namespace lockstep::report
