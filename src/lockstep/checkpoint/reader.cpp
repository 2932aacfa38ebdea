#include <lockstep/checkpoint/reader.hpp>

#include <string>
#include <string_view>

#include <lockstep/base/error.hpp>
#include <lockstep/checkpoint/checkpoint_file.hpp>
#include <lockstep/checkpoint/plan.hpp>

namespace lockstep {

CheckpointContents load_checkpoint(const std::filesystem::path& path) {
  const CheckpointFile file(path);
  CheckpointContents contents;
  contents.train.step = file.integer("/train/step");
  contents.train.epoch = file.integer("/train/epoch");
  contents.train.position = file.integer("/train/position");
  contents.train.seed = file.integer("/train/seed");
  contents.deck = file.text("/deck");
  for (const auto& entry : file.manifest().datasets) {
    const auto name_under = [&](std::string_view prefix) {
      return entry.path.starts_with(prefix) ? entry.path.substr(prefix.size()) : std::string();
    };
    if (auto model = name_under("/model/"); !model.empty()) {
      contents.model.insert(std::move(model), file.read(entry));
    } else if (auto slot = name_under("/optimizer/"); !slot.empty()) {
      contents.optimizer.insert(std::move(slot), file.read(entry));
    } else if (auto sum = name_under("/train/sums/"); !sum.empty()) {
      contents.train.sums.emplace_back(std::move(sum), file.real(entry.path));
    } else if (auto count = name_under("/train/counts/"); !count.empty()) {
      contents.train.counts.emplace_back(std::move(count), file.integer(entry.path));
    } else if (auto key = name_under("/metadata/"); !key.empty()) {
      contents.metadata.emplace_back(std::move(key), file.text(entry.path));
    }
  }
  return contents;
}

CheckpointContents load_checkpoint(ProcessGroup& group, const std::filesystem::path& path) {
  CheckpointContents contents;
  std::string error;
  try {
    contents = load_checkpoint(path);
  } catch (const std::exception& e) {
    error = e.what();
  }
  agree(group, "cannot resume", error);
  return contents;
}

void verify_checkpoint(const std::filesystem::path& path) {
  const CheckpointFile file(path);
  for (const auto& entry : file.manifest().datasets) file.verify(entry);
}

}  // namespace lockstep
