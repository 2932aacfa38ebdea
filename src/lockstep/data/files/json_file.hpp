#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace lockstep::detail {

/// What a small JSON file holds, which somebody else may have written. Throws InputError, naming
/// the file: one that is none, or cannot be read, that has more than `most_bytes`, is nested deeper
/// than `deepest` ({"a": [1]} is 2 deep), or has a name twice in one object.
[[nodiscard]] nlohmann::json read_json_file(const std::filesystem::path& file,
                                            std::int64_t most_bytes, int deepest);

/// As text, in one line or indented. What is no UTF-8, such as the name of a file, is replaced: it
/// must not end the program that reports it.
[[nodiscard]] std::string json_text(const nlohmann::json& json, int indent = -1);

}  // namespace lockstep::detail
