#include <lockstep/checkpoint/weights/weights.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/checkpoint/reader.hpp>
#include <lockstep/checkpoint/save/writer.hpp>
#include <lockstep/checkpoint/weights/hdf5_weights.hpp>
#include <lockstep/checkpoint/weights/hugging_face.hpp>
#include <lockstep/checkpoint/weights/safetensors.hpp>
#include <lockstep/comm/threads_group.hpp>
#include <lockstep/io/file.hpp>
#include <lockstep/io/hdf5.hpp>

namespace lockstep {
namespace {

enum class Kind { checkpoint, hdf5, safetensors };

/// A safetensors file begins with the length of a text that begins with a brace. A file of
/// torch.save is refused: a zip archive, or, by PyTorch before 1.6, a pickle of protocol 2.
Kind kind_of(const std::filesystem::path& path) {
  std::array<char, 9> begin{};
  try {
    const File file = File::open_for_reading(path);
    file.read_at(0, begin.data(), std::min<std::int64_t>(file.size(), begin.size()));
  } catch (const FileError& error) {
    throw CheckpointError(error.what());
  }
  const std::string_view first(begin.data(), begin.size());
  if (first.starts_with(hdf5_signature)) return Kind::hdf5;
  if (first.starts_with("PK\x03\x04") || first.starts_with("\x80\x02"))
    throw CheckpointError(
        path.string() +
        " is a file of torch.save, which only Python can read. Write the weights in Python by "
        "safetensors.torch.save_file(model.state_dict(), \"weights.safetensors\")");
  return begin.back() == '{' ? Kind::safetensors : Kind::checkpoint;
}

std::int64_t whole_number(const std::string& text) {
  return std::strtoll(text.c_str(), nullptr, 10);
}

}  // namespace

CheckpointContents read_whole(const std::filesystem::path& path) {
  CheckpointContents contents;
  switch (kind_of(path)) {
    case Kind::hdf5:
      contents.model = read_hdf5_weights(path);
      break;
    case Kind::safetensors: {
      Safetensors file = read_safetensors(path);
      contents.model = std::move(file.tensors);
      for (const auto& [key, value] : file.metadata) {
        if (key == "step") contents.train.step = whole_number(value);
        if (key == "epoch") contents.train.epoch = whole_number(value);
        if (key == "deck") contents.deck = value;
        if (key == "signature") contents.signature = ModelSignature::parse(value, "signature");
      }
      break;
    }
    case Kind::checkpoint:
      return load_checkpoint(path);
  }
  if (is_hugging_face_gpt2(contents.model)) contents.model = from_hugging_face_gpt2(contents.model);
  return contents;
}

CheckpointContents read_weights(const std::filesystem::path& path) {
  CheckpointContents contents = read_whole(path);
  contents.optimizer = {};
  return contents;
}

void write_weights(const std::filesystem::path& path, const CheckpointContents& contents,
                   WeightsFormat format) {
  if (format == WeightsFormat::safetensors) {
    Safetensors file{.tensors = contents.model,
                     .metadata = {{"format", "pt"},
                                  {"step", std::to_string(contents.train.step)},
                                  {"epoch", std::to_string(contents.train.epoch)},
                                  {"deck", contents.deck}}};
    if (contents.signature.is_known())
      file.metadata.emplace_back("signature", contents.signature.to_text());
    write_safetensors(path, file);
    return;
  }
  CheckpointContents weights = contents;
  weights.optimizer = {};
  run_ranks_as_threads(1, [&](ProcessGroup& group) {
    CheckpointWriter().save(group, path, weights, NotFinite::save);
  });
}

}  // namespace lockstep
