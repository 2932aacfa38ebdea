#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace lockstep::detail {

/// Contents of a small JSON file that another program may have written. Throws InputError, naming
/// the file, if it is not JSON, cannot be read, has more than `most_bytes`, is nested deeper than
/// `deepest` ({"a": [1]} is 2 deep), or has a name twice in one object.
[[nodiscard]] nlohmann::json read_json_file(const std::filesystem::path& file,
                                            std::int64_t most_bytes, int deepest);

/// As text, in one line or indented. Bytes that are not UTF-8, for example in a file's name, are
/// replaced, so that they cannot end the program that reports them.
[[nodiscard]] std::string json_text(const nlohmann::json& json, int indent = -1);

}  // namespace lockstep::detail
