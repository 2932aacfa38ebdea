// Token files, the windows drawn from them, and the options that name them.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <thread>

#include <lockstep/data/batches/batch_source.hpp>
#include <lockstep/data/data_options.hpp>
#include <lockstep/data/tokens/token_dataset.hpp>
#include <lockstep/data/tokens/token_file.hpp>

#include "idx_files.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using test::Bytes;
using test::input_error;
using test::says;
using test::TemporaryFolder;

using Tokens = std::vector<std::uint16_t>;

/// first, first + 1, ...
Tokens counting_from(int first, std::size_t n) {
  Tokens tokens(n);
  std::iota(tokens.begin(), tokens.end(), static_cast<std::uint16_t>(first));
  return tokens;
}

/// A file as llm.c's scripts write it: its header has no vocabulary size.
Bytes of_llm_c(std::int32_t magic, std::int32_t version, std::int32_t count, const Tokens& tokens) {
  Bytes bytes(1024 + 2 * tokens.size());
  std::memcpy(bytes.data(), &magic, 4);
  std::memcpy(bytes.data() + 4, &version, 4);
  std::memcpy(bytes.data() + 8, &count, 4);
  std::memcpy(bytes.data() + 1024, tokens.data(), 2 * tokens.size());
  return bytes;
}

Tokens all_of(const TokenFile& file) {
  Tokens tokens(static_cast<std::size_t>(file.size()));
  file.read(0, tokens);
  return tokens;
}

TEST(TokenFile, ReadsWhatLlmCWrites) {
  const TemporaryFolder folder;
  const Tokens tokens{7, 0, 50256, 65535};
  const TokenFile file(folder.write("a.bin", of_llm_c(20240520, 1, 4, tokens)));
  EXPECT_EQ(all_of(file), tokens);
  EXPECT_EQ(file.vocabulary(), 0);
}

TEST(TokenFile, WrittenIsReadAgainAndIsLlmCs) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "a.bin";
  const Tokens tokens{3, 1, 2};
  write_token_file(path, tokens, 5);
  const TokenFile file(path);
  EXPECT_EQ(all_of(file), tokens);
  EXPECT_EQ(file.vocabulary(), 5);
  Bytes expected = of_llm_c(20240520, 1, 3, tokens);
  expected[12] = 5;
  EXPECT_EQ(test::read_file(path), expected);
}

TEST(TokenFile, RefusesOtherAndDamagedFiles) {
  const TemporaryFolder folder;
  const auto error = [&](const Bytes& bytes) {
    const fs::path path = folder.write("a.bin", bytes);
    return input_error([&] { return TokenFile(path); });
  };
  const Tokens tokens{1, 2, 3};
  EXPECT_TRUE(
      says(error(of_llm_c(20240521, 1, 3, tokens)), "begins with 20240521, not with 20240520"));
  EXPECT_TRUE(says(error(of_llm_c(20240520, 2, 3, tokens)), "token file of version 2"));
  EXPECT_TRUE(says(error(of_llm_c(20240520, 1, 4, tokens)),
                   "says 4 tokens, but 6 bytes follow it, too few"));
  EXPECT_TRUE(says(error(of_llm_c(20240520, 1, 2, tokens)), "more than they take"));
  EXPECT_TRUE(says(error(of_llm_c(20240520, 1, -1, tokens)), "-1 tokens"));
  EXPECT_TRUE(says(error(Bytes(100)), "has 100 bytes, fewer than the header's 1024"));
  EXPECT_TRUE(says(error({}), "has 0 bytes"));
  EXPECT_TRUE(says(input_error([&] { return TokenFile(folder.path() / "none.bin"); }),
                   "none.bin is missing. Token files are made by"));
  EXPECT_TRUE(says(input_error([&] { return TokenFile(folder.path()); }), "which is not a file"));
}

class TokenWindows : public testing::Test {
 protected:
  /// Tokens first, first + 1, ... in a file.
  fs::path shard(const std::string& name, int first, std::size_t n) {
    const fs::path path = folder_.path() / name;
    write_token_file(path, counting_from(first, n), 200);
    return path;
  }
  TemporaryFolder folder_;
};

TEST_F(TokenWindows, PredictEveryTokenOfAShardOnceAndNoneAcrossShards) {
  // 13 tokens are 3 windows of 4 predictions, 6 are 1.
  const TokenDataset data({shard("a.bin", 0, 13), shard("b.bin", 100, 6)}, 4, 200);
  ASSERT_EQ(data.size(), 4);
  EXPECT_EQ(data.sample_shape(), Shape({4}));
  EXPECT_EQ(data.target_shape(), Shape({4}));
  EXPECT_EQ(data.classes(), 200);
  EXPECT_EQ(data.input_dtype(), DType::i64);
  Batch batch(data, 4);
  data.load(std::vector<std::int64_t>{3, 0, 2, 1}, batch);
  EXPECT_EQ(batch.inputs().to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{100, 101, 102, 103, 0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7}));
  EXPECT_EQ(batch.targets().to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{101, 102, 103, 104, 1, 2, 3, 4, 9, 10, 11, 12, 5, 6, 7, 8}));
  EXPECT_EQ(TokenDataset({shard("a.bin", 0, 13)}, 4, 200, 2).size(), 2);
}

// On any number of ranks, an epoch's batches have each window once.
TEST_F(TokenWindows, EachIsDrawnOnceAnEpoch) {
  const TokenDataset data({shard("a.bin", 0, 150)}, 4, 200);
  for (const int world : {1, 2, 3}) {
    const BatchPlan plan(data.size(), 5, world);
    std::vector<std::int64_t> seen;
    for (int rank = 0; rank < world; ++rank) {
      TrainBatches batches(plan, rank, 11);
      batches.start_epoch(3);
      for (std::int64_t step = 0; step < batches.steps(); ++step) {
        const auto numbers = batches.indices(step);
        Batch batch(data, batches.largest_batch());
        data.load(numbers, batch);
        for (std::int64_t i = 0; i < batch.size(); ++i)
          seen.push_back(
              batch.targets().to_vector<std::int64_t>()[static_cast<std::size_t>(4 * i)]);
      }
    }
    std::ranges::sort(seen);
    std::vector<std::int64_t> expected;
    for (std::int64_t w = 0; w < 37; ++w) expected.push_back(4 * w + 1);
    EXPECT_EQ(seen, expected) << world << " ranks";
  }
}

TEST_F(TokenWindows, RefuseTokensOutsideTheVocabularyNamingThePlace) {
  const fs::path path = folder_.path() / "a.bin";
  write_token_file(path, Tokens{1, 2, 3, 9, 4, 5, 6, 7, 8}, 0);
  const TokenDataset data({path}, 4, 9);
  Batch batch(data, 2);
  EXPECT_TRUE(says(input_error([&] {
                     data.load(std::vector<std::int64_t>{1, 0}, batch);
                     return 0;
                   }),
                   "a.bin: token 3 of the file is 9, outside the vocabulary of 9"));
  data.load(std::vector<std::int64_t>{1}, batch);
  EXPECT_THROW(data.load(std::vector<std::int64_t>{2}, batch), Error);
}

// If mapped into memory, the file would end the process by SIGBUS.
TEST_F(TokenWindows, OfAFileThatIsCutWhileItIsReadAreAnErrorWithFileAndByte) {
  const fs::path path = shard("a.bin", 0, 9000);
  const TokenDataset data({path}, 4, 9000);
  Batch batch(data, 1);
  data.load(std::vector<std::int64_t>{2000}, batch);
  fs::resize_file(path, 4096);
  const auto error = [&](std::int64_t window) {
    return input_error([&] {
      data.load(std::vector<std::int64_t>{window}, batch);
      return 0;
    });
  };
  EXPECT_TRUE(says(error(2000), "a.bin: it ends at byte 17024, 10 bytes too early")) << error(2000);
  EXPECT_TRUE(says(error(0),
                   "a.bin was changed while the run reads it (it has 4096 bytes, and "
                   "had 19024)"))
      << error(0);
}

/// Open descriptors of this process.
std::ptrdiff_t descriptors() {
  return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
}

TEST_F(TokenWindows, OfThousandsOfFilesTakeAQuarterOfTheDescriptors) {
  constexpr int n = 2000;
  rlimit before{}, low{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  low = before;
  low.rlim_cur = 256;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  const auto others = descriptors();
  std::vector<fs::path> files;
  for (int i = 0; i < n; ++i) {
    const Tokens tokens{static_cast<std::uint16_t>(i), 1, 2, 3};
    files.push_back(folder_.write(std::to_string(i) + ".bin", of_llm_c(20240520, 1, 4, tokens)));
  }
  const TokenDataset data(files, 3, n);
  EXPECT_EQ(data.size(), n);
  std::vector<std::int64_t> every_third(n);
  for (std::size_t i = 0; i < n; ++i) every_third[i] = static_cast<std::int64_t>(i) * 7 % n;
  std::vector<std::jthread> readers;
  for (int reader = 0; reader < 3; ++reader) {
    readers.emplace_back([&] {
      Batch batch(data, n);
      data.load(every_third, batch);
      const auto tokens = batch.inputs().to_vector<std::int64_t>();
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(tokens[3 * i], every_third[i]);
    });
  }
  readers.clear();
  EXPECT_LE(descriptors(), others + 64);

  // A reopened file must be the same file.
  Batch batch(data, 1);
  const auto error = [&](std::int64_t window) {
    return input_error([&] {
      data.load(std::vector<std::int64_t>{window}, batch);
      return 0;
    });
  };
  data.load(std::vector<std::int64_t>(every_third.begin() + 1000, every_third.begin() + 1001),
            batch);
  const auto closed = static_cast<std::size_t>(every_third[1]);  // long ago
  fs::resize_file(files[closed], 1026);
  EXPECT_TRUE(says(error(every_third[1]), files[closed].string() + " was replaced or changed"));
  fs::remove(files[closed]);
  EXPECT_TRUE(says(error(every_third[1]), "cannot open " + files[closed].string()));
  EXPECT_TRUE(says(error(every_third[1]), "continue with --resume"));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST_F(TokenWindows, PassOverAFileThatIsTooShort) {
  const TokenDataset data({shard("a.bin", 0, 4), shard("b.bin", 10, 9), shard("c.bin", 50, 0),
                           shard("d.bin", 70, 5), shard("e.bin", 90, 1)},
                          4, 200);
  ASSERT_EQ(data.size(), 3);
  Batch batch(data, 3);
  data.load(std::vector<std::int64_t>{2, 0, 1}, batch);
  EXPECT_EQ(batch.inputs().to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{70, 71, 72, 73, 10, 11, 12, 13, 14, 15, 16, 17}));
}

TEST_F(TokenWindows, RefuseFilesThatAreTooShortOrOfMoreTokens) {
  EXPECT_TRUE(says(input_error([&] { return TokenDataset({shard("a.bin", 0, 4)}, 4, 200); }),
                   "has 4 tokens, but a window of data.context = 4 takes 5"));
  EXPECT_TRUE(says(input_error([&] { return TokenDataset({shard("a.bin", 0, 5)}, 4, 199); }),
                   "has 200 different tokens, more than data.vocabulary = 199"));
}

class TokenOptionsTest : public TokenWindows {
 protected:
  [[nodiscard]] DataOptions options() const {
    DataOptions options;
    options.kind = TokenOptions{.context = 4};
    options.path = {folder_.path()};
    return options;
  }
  [[nodiscard]] static std::string error(const DataOptions& options) {
    return input_error([&] { return make_datasets(options, TargetKind::tokens); });
  }
};

TEST_F(TokenOptionsTest, TakeTheShardsOfAFolderInTheOrderOfTheirNames) {
  shard("x_train_000002.bin", 50, 9);
  shard("x_train_000001.bin", 10, 9);
  shard("x_val_000000.bin", 100, 13);
  shard("notes.txt", 0, 3);
  const Datasets sets = make_datasets(options(), TargetKind::tokens);
  EXPECT_EQ(sets.train->size(), 4);
  EXPECT_EQ(sets.test->size(), 3);
  EXPECT_EQ(sets.train->classes(), 200) << "as the files say";
  Batch batch(*sets.train, 4);
  sets.train->load(std::vector<std::int64_t>{0, 2}, batch);
  EXPECT_EQ(batch.inputs().to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{10, 11, 12, 13, 50, 51, 52, 53}));
}

TEST_F(TokenOptionsTest, KnowTheSetsByWholeWordsOfTheNames) {
  shard("retrieval_train_000.bin", 0, 9);
  shard("latest-train.bin", 10, 9);
  shard("retrieval_val_000.bin", 100, 5);
  shard("training.bin", 20, 5);
  shard("trainer.bin", 0, 50);
  shard("2validation.bin", 100, 9);
  const Datasets sets = make_datasets(options(), TargetKind::tokens);
  EXPECT_EQ(sets.train->size(), 5);
  EXPECT_EQ(sets.test->size(), 3);
  const fs::path both = shard("ab-test_train.bin", 0, 9);
  EXPECT_TRUE(says(error(options()), "the name of " + both.string() + " has words of both"));
}

TEST_F(TokenOptionsTest, TakePatternsOfFolders) {
  for (const std::string part : {"corpus-1", "corpus-2"}) {
    shard(part + "/train.bin", 0, 9);
    shard(part + "/val.bin", 0, 5);
  }
  write_tokenizer_choice(folder_.path() / "corpus-1", {.kind = "bytes"});
  DataOptions parts = options();
  parts.path = {(folder_.path() / "corpus-*").string()};
  const Datasets sets = make_datasets(parts, TargetKind::tokens);
  EXPECT_EQ(sets.train->size(), 4);
  EXPECT_EQ(sets.test->size(), 2);
  EXPECT_EQ(sets.facts.tokenizer, "bytes");
}

TEST_F(TokenOptionsTest, RecordTheTokenizerAndTheVocabulary) {
  shard("train.bin", 0, 100);
  write_tokenizer_choice(folder_.path(), {.kind = "characters", .characters = {"\n", "a", "ü"}});
  DataOptions told = options();
  told.test_set = false;
  told.validation_fraction = 0.25;
  const Datasets sets = make_datasets(told, TargetKind::tokens);
  EXPECT_EQ(sets.train->size(), 18);
  EXPECT_EQ(sets.validation->size(), 6);
  const DataOptions found = as_found(told, sets);
  EXPECT_EQ(found.kind.get_if<TokenOptions>()->vocabulary, 200);
  EXPECT_EQ(found.kind.get_if<TokenOptions>()->tokenizer, "characters");
  EXPECT_EQ(found.class_names, (std::vector<std::string>{"\n", "a", "ü"}));
  fs::remove(folder_.path() / "tokenizer.json");
  EXPECT_EQ(make_tokenizer(found)->decode(Tokens{2, 1}), "üa") << "without the folder's help";
}

TEST_F(TokenOptionsTest, NameMissingFiles) {
  EXPECT_TRUE(says(error(options()), "holds no token files of the training set"));
  const fs::path train = shard("train.bin", 0, 100);
  EXPECT_TRUE(says(error(options()), "holds no token files of the test set"));
  DataOptions one = options();
  one.path = {train};
  EXPECT_TRUE(says(error(one), "data.test_set = false"));
  one.kind = TokenOptions{.context = 4, .test_path = {train}};
  EXPECT_TRUE(says(error(one), "train.bin is a file of the training set and of the test set"));
  one.kind = TokenOptions{.context = 4, .test_path = {shard("other.bin", 0, 100)}};
  EXPECT_EQ(make_datasets(one, TargetKind::tokens).test->size(), 24);
  DataOptions apart = options();
  apart.kind = TokenOptions{.context = 4, .test_path = {(folder_.path() / "heldout").string()}};
  shard("heldout/data.bin", 0, 9);
  EXPECT_TRUE(says(error(apart), "heldout holds no token files of the test set"));
  EXPECT_TRUE(says(error(apart), "name the files themselves in data.test_path"));
  DataOptions nowhere = options();
  nowhere.path = {"auto"};
  EXPECT_TRUE(says(error(nowhere), "needs data.path"));
  nowhere.path = {(folder_.path() / "nowhere").string()};
  EXPECT_TRUE(says(error(nowhere), "there is no"));
  write_token_file(train, counting_from(0, 100), 0);
  DataOptions silent = options();
  silent.test_set = false;
  EXPECT_TRUE(says(error(silent), "Set data.vocabulary"));
  EXPECT_TRUE(says(input_error([&] { return make_tokenizer(silent); }), "is unknown"));
  EXPECT_TRUE(says(input_error([&] { return make_datasets(silent, TargetKind::classes); }),
                   "which the program gpt trains"));
  EXPECT_TRUE(says(input_error([&] { return make_datasets({}, TargetKind::tokens); }),
                   "a language model is trained on tokens"));
}

}  // namespace
}  // namespace lockstep
