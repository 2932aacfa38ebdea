// Damaged files, and files that never were checkpoints, decks or data.
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string_view>

#include <data/hdf5_files.hpp>
#include <data/idx_files.hpp>
#include <lockstep/checkpoint/reader.hpp>
#include <lockstep/data/files/idx.hpp>
#include <lockstep/data/streamed_dataset.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/regression.hpp>
#include <lockstep/train/task/task_options.hpp>

#include "fault.hpp"
#include "in_child.hpp"
#include "job.hpp"

namespace lockstep::reliability {
namespace {

namespace fs = std::filesystem;
using test::ScratchFolder;

std::uint32_t below(PhiloxSequence& random, std::size_t n) {
  return random.below(static_cast<std::uint32_t>(n));
}

/// One to eight edits: bits, bytes and words of important numbers, pieces removed, doubled, cut
/// off.
std::string mutated(std::string bytes, PhiloxSequence& random) {
  constexpr std::array<std::string_view, 8> pieces = {std::string_view("\0\0\0\0", 4),
                                                      "\xFF\xFF\xFF\xFF",
                                                      "\x7F\xFF\xFF\xFF",
                                                      std::string_view("\xFF\xFF\xFF\x7F", 4),
                                                      std::string_view("\0\0\0\x80", 4),
                                                      "\x80",
                                                      "1e999",
                                                      std::string_view("\x01\0\0\0\0\0\0\0", 8)};
  for (std::uint32_t edits = 1 + random.below(8); edits > 0 && !bytes.empty(); --edits) {
    const auto at = below(random, bytes.size());
    const auto some = 1 + random.below(32);
    switch (random.below(8)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(8)));
        break;
      case 1:
      case 2:
        bytes[at] = static_cast<char>(random.below(256));
        break;
      case 3: {
        const auto piece = pieces[below(random, pieces.size())];
        bytes.replace(at, piece.size(), piece);
        break;
      }
      case 4:
        bytes.erase(at, some);
        break;
      case 5:
        bytes.insert(at, bytes.substr(below(random, bytes.size()), some));
        break;
      case 6: {
        const std::string other = bytes.substr(below(random, bytes.size()), some);
        bytes.replace(at, other.size(), other);
        break;
      }
      default:
        if (random.below(4) == 0) bytes.resize(at);
    }
  }
  return bytes;
}

/// Half of the edits change the structure, in the first bytes.
std::string mutated_in_front(const std::string& bytes, std::size_t front, PhiloxSequence& random) {
  if (random.below(2) == 0) return mutated(bytes, random);
  front = std::min(front, bytes.size());
  return mutated(bytes.substr(0, front), random) + bytes.substr(front);
}

/// Writes `content`, calls `read` in a process of its own, and expects a sentence of one line that
/// names the file, or, with `may_be_taken`, no complaint.
Outcome read_garbage(const std::string& content, const std::string& name, bool may_be_taken,
                     const std::function<void(const std::string&)>& read) {
  static const ScratchFolder scratch;
  const std::string path = scratch.write(name, content);
  const ChildEnd end = in_child([&] { read(path); });
  const bool refused = end.well && !end.sentence.empty();
  const bool named = end.sentence.find(name) != std::string::npos;
  if (refused && named) return right("refused in a sentence");
  if (end.well && !refused && may_be_taken) return right("still good, and taken");
  const std::string kept = (fs::temp_directory_path() / ("lockstep-garbage-" + name)).string();
  fs::copy_file(path, kept, fs::copy_options::overwrite_existing);
  return wrong((end.well ? "no sentence, or not of this file: " : "") + end.sentence + "\n" + kept);
}

const std::string& good_checkpoint() {
  static const std::string bytes =
      test::read_file(undisturbed().dir + "/checkpoints/step-00000024.h5");
  return bytes;
}

Outcome read_damaged_checkpoint(const std::string& content) {
  return read_garbage(content, "step-00000024.h5", false, [](const std::string& path) {
    try {
      static_cast<void>(load_checkpoint(path));
    } catch (const CheckpointError&) {  // it does not verify the bytes of unloaded tensors
    }
    verify_checkpoint(path);
  });
}

Outcome truncated(PhiloxSequence& random) {
  return read_damaged_checkpoint(
      good_checkpoint().substr(0, below(random, good_checkpoint().size())));
}

Outcome flipped(PhiloxSequence& random) {
  std::string bytes = good_checkpoint();
  char& byte = bytes[below(random, bytes.size())];
  byte = static_cast<char>(byte ^ (1 << random.below(8)));
  return read_damaged_checkpoint(bytes);
}

Outcome garbage_deck(PhiloxSequence& random) {
  static const std::vector<std::string> decks = [] {
    std::vector<std::string> all{test::read_file(undisturbed().dir + std::string("/deck.toml"))};
    for (const auto& entry : fs::directory_iterator(test::source("inputs"))) {
      if (entry.path().extension() == ".toml")
        all.push_back(test::read_file(entry.path().string()));
    }
    std::ranges::sort(all);
    return all;
  }();
  const std::string content = mutated(decks[below(random, decks.size())], random);
  return read_garbage(content, "deck.toml", true, [](const std::string& path) {
    auto deck = Deck::load(path, {});
    static_cast<void>(train::read_run_plan(deck));
    static_cast<void>(train::read_task_options(deck));
    deck.check_all_read();
  });
}

std::string text_of(const test::Bytes& bytes) { return {bytes.begin(), bytes.end()}; }

Outcome garbage_idx(PhiloxSequence& random) {
  static const test::Bytes plain = test::idx({20, 6, 5}, test::counting(600));
  static const std::string files[] = {text_of(plain), text_of(test::gzip(plain))};
  return read_garbage(mutated_in_front(files[random.below(2)], 16, random), "images-idx3-ubyte",
                      true, [](const std::string& path) { static_cast<void>(read_idx(path, 3)); });
}

/// Contiguous, chunked, and compressed.
const std::vector<std::string>& good_hdf5_files() {
  static const std::vector<std::string> files = [] {
    std::vector<std::string> all;
    const ScratchFolder scratch;
    std::vector<float> features(24 * 6);
    for (std::size_t i = 0; i < features.size(); ++i) features[i] = static_cast<float>(i) / 7;
    std::vector<std::int32_t> targets(24);
    for (std::size_t i = 0; i < targets.size(); ++i) targets[i] = static_cast<std::int32_t>(i % 3);
    for (const auto& [chunk, compressed] :
         {std::pair(std::vector<std::int64_t>{}, false), {{5, 6}, false}, {{5, 6}, true}}) {
      const std::string file = scratch.file(std::to_string(all.size()) + ".h5");
      test::write_hdf5(file, "train/features", {24, 6}, features,
                       {.chunk = chunk, .compressed = compressed});
      test::write_hdf5(file, "train/targets", {24}, targets);
      all.push_back(test::read_file(std::string(file)));
    }
    return all;
  }();
  return files;
}

Outcome garbage_hdf5(PhiloxSequence& random) {
  const std::string& good = good_hdf5_files()[below(random, good_hdf5_files().size())];
  const bool streamed = random.below(2) == 0;
  return read_garbage(
      mutated_in_front(good, 2048, random), "data.h5", true, [&](const std::string& path) {
        const StoredSamples samples =
            test::open_samples(path, "train/features", "train/targets", TargetKind::classes);
        const std::int64_t classes = count_classes(samples);
        expect_classes(samples, classes);
        const Normalisation normalisation =
            measure_normalisation(*samples.features, samples.size, 1.0);
        if (!streamed) {
          static_cast<void>(load_samples(samples, classes, normalisation));
          return;
        }
        const StreamedDataset dataset(samples, classes, normalisation);
        Batch batch(dataset, 4);
        const std::array<std::int64_t, 4> indices{0, 3, dataset.size() - 1, 1};
        dataset.load(indices, batch);
      });
}

}  // namespace

std::vector<Fault> faults_of_files() {
  return {
      {"checkpoint-cut", "a checkpoint cut short at a random byte, verified and loaded", 500, 20,
       truncated},
      {"checkpoint-flipped", "a checkpoint with a random bit flipped", 500, 20, flipped},
      {"deck", "a deck with up to 8 edits; no crash, no hang, no more than 1 GiB of memory", 2000,
       100, garbage_deck},
      {"idx", "an IDX file, plain or gzip, likewise", 2000, 100, garbage_idx},
      {"hdf5", "an HDF5 file, contiguous, chunked or compressed, loaded or streamed, likewise",
       2000, 100, garbage_hdf5},
  };
}

}  // namespace lockstep::reliability
