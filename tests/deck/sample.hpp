#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/deck/deck.hpp>

namespace lockstep::test {

enum class Pace { slow, fast };

/// One key of every type, with every kind of limit.
struct SampleOptions {
  double lr = 0.01;
  double clip = std::numeric_limits<double>::infinity();
  double timeout = 30;
  double ratio = 0.5;
  std::int64_t epochs = 10;
  bool shuffle = true;
  std::string dir = "runs/x";
  std::string backend = "mpi";
  Pace pace = Pace::slow;
  std::vector<std::int64_t> sizes = {1, 2};
  std::vector<double> betas = {0.9, 0.999};
  std::vector<std::string> files;
};

inline void declare(DeckTable& table, SampleOptions& o) {
  table.key("lr", o.lr, {.doc = "learning rate", .min = 0.0, .above_min = true});
  table.key("clip", o.clip, {.doc = "largest gradient norm", .min = 0.0});
  table.key("timeout", o.timeout, {.doc = "longest wait", .unit = "s", .min = 0.5, .max = 3600.0});
  table.key("ratio", o.ratio, {.doc = "share of samples"});
  table.key("epochs", o.epochs, {.doc = "passes over the data", .min = 1.0, .max = 1000.0});
  table.key("shuffle", o.shuffle, {.doc = "new order each epoch"});
  table.key("dir", o.dir, {.doc = "run folder"});
  table.key("backend", o.backend, {.doc = "what carries data", .choices = {"mpi", "threads"}});
  table.choice("pace", o.pace, {{"slow", Pace::slow}, {"fast", Pace::fast}}, "how fast");
  table.key("sizes", o.sizes, {.doc = "layer widths", .min = 1.0});
  table.key("betas", o.betas, {.doc = "decay | rates", .min = 0.0, .max = 1.0});
  table.key("files", o.files, {.doc = "inputs"});
}

/// Declarations of a small second component.
struct OtherOptions {
  std::int64_t momentum = 0;
};

inline void declare(DeckTable& table, OtherOptions& o) {
  table.key("momentum", o.momentum, {.doc = "of the other table"});
}

/// The sample table "train" of `toml`, called a.toml in messages.
inline SampleOptions read_sample(std::string_view toml,
                                 const std::vector<std::string>& overrides = {}) {
  return Deck::parse(toml, "a.toml", overrides).read<SampleOptions>("train");
}

/// The message of the InputError thrown by `action`; the test fails if there is none.
template <class Action>
std::string input_error(Action action) {
  try {
    action();
  } catch (const InputError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::bad_input);
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "not an InputError: " << error.what();
    return "";
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

inline std::string error_of(std::string_view toml, const std::vector<std::string>& overrides = {}) {
  return input_error([&] { (void)read_sample(toml, overrides); });
}

/// A folder of this test's own, initially empty, removed at the end. The test runs inside it, so
/// messages show short relative paths.
class InTemporaryFolder : public testing::Test {
 protected:
  InTemporaryFolder() : before_(std::filesystem::current_path()) {
    std::string name = (std::filesystem::temp_directory_path() / "lockstep-deck-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed for " + name);
    folder_ = name;
    std::filesystem::current_path(folder_);
  }
  ~InTemporaryFolder() override {
    std::filesystem::current_path(before_);
    std::filesystem::remove_all(folder_);
  }

  static void write(const std::filesystem::path& file, std::string_view text) {
    if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
  }
  static std::string load_error(const std::filesystem::path& file) {
    return input_error([&] { (void)Deck::load(file); });
  }

 private:
  std::filesystem::path before_, folder_;
};

}  // namespace lockstep::test
