#include <lockstep/data/files/json_file.hpp>

#include <fmt/format.h>

#include <string>
#include <unordered_set>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/base/read_file.hpp>

namespace lockstep::detail {

nlohmann::json read_json_file(const std::filesystem::path& file, std::int64_t most_bytes,
                              int deepest) {
  using Event = nlohmann::json::parse_event_t;
  const std::string text = read_small_file(file, most_bytes);
  std::vector<std::unordered_set<std::string>> names(static_cast<std::size_t>(deepest));
  const auto look = [&](int depth, Event event, nlohmann::json& parsed) {
    const bool opens = event == Event::object_start || event == Event::array_start;
    if (opens && depth >= deepest) {
      throw InputError(
          fmt::format("{} is nested deeper than {} levels: it is not the expected kind of file",
                      file.string(), deepest));
    }
    if (event == Event::object_start) names[static_cast<std::size_t>(depth)].clear();
    if (event == Event::key) {
      const auto& name = parsed.get_ref<const std::string&>();
      if (!names[static_cast<std::size_t>(depth) - 1].insert(name).second)
        throw InputError(fmt::format("{} has the name '{}' twice", file.string(), name));
    }
    return true;
  };
  try {
    return nlohmann::json::parse(text, look);
  } catch (const nlohmann::json::exception&) {
    throw InputError(fmt::format("{} is not JSON", file.string()));
  }
}

std::string json_text(const nlohmann::json& json, int indent) {
  return json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace lockstep::detail
