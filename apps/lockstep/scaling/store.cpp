#include "store.hpp"

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/base/read_file.hpp>
#include <lockstep/io/atomic_file.hpp>

#include "output_folder.hpp"

namespace lockstep::scaling {
namespace fs = std::filesystem;

Json read_study_file(const fs::path& file) {
  constexpr std::int64_t most_bytes = std::int64_t{256} << 20U;
  Json json = Json::parse(read_small_file(file, most_bytes), nullptr, false);
  if (!json.is_object()) throw InputError(file.string() + " is not a file of a scaling study");
  return json;
}

Store::Store(const fs::path& folder, const Identity& identity)
    : folder_(utility::checked_output(folder, "study.json", "a study's")),
      lock_(folder_, {.name = "study", .option = "--output"}) {
  const fs::path file = folder_ / "study.json";
  std::error_code error;
  if (!fs::exists(file, error)) {
    write_atomically(file, text_of(identity.json()));
    return;
  }
  std::string differs;
  try {
    differs = difference(Identity::from(read_study_file(file)), identity);
  } catch (const Json::exception&) {
    throw InputError(file.string() + " is not a file of a scaling study");
  }
  if (differs.empty()) return;
  throw InputError(fmt::format(
      "{} holds a study of {}, with which new points cannot be compared; name another --output",
      folder_.string(), differs));
}

fs::path Store::file_of(const std::string& name) const {
  return folder_ / "points" / (name + ".json");
}

std::optional<Json> Store::known(const std::string& name) const {
  std::error_code error;
  if (!fs::exists(file_of(name), error)) return std::nullopt;
  return read_study_file(file_of(name));
}

void Store::put(const std::string& name, const Json& result) const {
  write_atomically(file_of(name), text_of(result));
}

fs::path Store::new_run_folder(const std::string& name) const {
  remove_run_folder(name);
  return folder_ / "runs" / name;
}

void Store::remove_run_folder(const std::string& name) const {
  std::error_code ignored;
  fs::remove_all(folder_ / "runs" / name, ignored);
  fs::remove(folder_ / "runs", ignored);  // if it is empty
}

}  // namespace lockstep::scaling
