// The Python code of docs/guide/checkpoints.md, taken from the page, run by the system's python3.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include <checkpoint/python.hpp>
#include <checkpoint/sample.hpp>
#include <lockstep/base/hash.hpp>
#include <lockstep/checkpoint/folder_of_checkpoints.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// The fenced Python of a page of docs/.
std::string snippet(const char* of_page) {
  const std::string fence = "```python";
  const char* sources = std::getenv("LOCKSTEP_SOURCE_DIR");
  if (!sources) throw Error("LOCKSTEP_SOURCE_DIR is not set");
  std::ifstream in(fs::path(sources) / "docs" / of_page);
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  const auto begin = page.find(fence + "\n");
  if (begin == std::string::npos) throw Error(of_page + (" has no block " + fence));
  const auto body = begin + fence.size() + 1;
  return page.substr(body, page.find("```", body) - body);
}

class H5py : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::python_has_h5py())
      GTEST_SKIP() << "python3 has no h5py or numpy (Debian: python3-h5py)";
  }
};

TEST_F(H5py, TheThreeLinesOfTheDocsReadTheWeightsInPyTorchsLayout) {
  const auto folder = test::scratch("h5py");
  test::save_on_threads(checkpoint_path(folder / "checkpoints", 938), 3);
  EXPECT_EQ(test::run_python(folder, snippet("guide/checkpoints.md") + R"(
import numpy as np
def same(name, shape, first):
    assert weights[name].shape == shape and weights[name].dtype == np.float32, name
    assert (weights[name].ravel() == first + np.arange(np.prod(shape), dtype=np.float32)).all(), name
same("conv1.weight", (10, 1, 5, 5), 0)
same("conv1.bias", (10,), 1)
same("fc.weight", (1200, 1000), 2)
same("table", (7, 3), 3)
assert weights["count"] == 1234567 and weights["empty"].shape == (0, 3)
assert list(weights)[:3] == ["conv1.weight", "conv1.bias", "fc.weight"]
assert file["optimizer/conv1.weight/momentum_buffer"].shape == (10, 1, 5, 5)
assert file["train/step"][()] == 938 and file["train/sums/loss"][()] == 0.1 + 0.2
assert file["deck"][()].decode() == "[train]\nepochs = 2\n"
assert file["metadata/onednn"][()] == b"2.6.3"
assert file.attrs["lockstep_format"] == 3
)"),
            0);
}

TEST_F(H5py, TheTenLinesOfTheFormatPageReadEverything) {
  const auto folder = test::scratch("h5py-all");
  test::save_on_threads(folder / "a.h5", 2);
  const auto deck = test::sample().deck;
  EXPECT_EQ(test::run_python(folder, snippet("reference/checkpoint_format.md") + R"(
state = load("a.h5")
assert state["model/conv1.weight"].shape == (10, 1, 5, 5)
assert state["model/table"].tolist() == [[3, 4, 5], [6, 7, 8], [9, 10, 11], [12, 13, 14],
                                         [15, 16, 17], [18, 19, 20], [21, 22, 23]]
assert state["optimizer/table/momentum_buffer"].tolist() == [[5, 6], [7, 8]]
assert state["train/step"] == 938 and state["train/counts/correct"] == 1 << 60
assert state["deck"] == "[train]\nepochs = 2\n"
assert state["metadata/ranks"] == "2" and state["metadata/empty"] == ""
assert state["manifest"].startswith("lockstep checkpoint manifest\n")
assert state["deck_hash"] == ")" + to_hex(hash64(deck.data(), deck.size())) +
                                         R"("
)"),
            0);
}

/// HDF5 itself could have written a compressed file: its filters, its chunks.
TEST_F(H5py, TheSameLinesReadCompressedFiles) {
  const auto folder = test::scratch("h5py-compressed");
  run_ranks_as_threads(3, [&](ProcessGroup& group) {
    auto contents = test::sample(group.rank(), group.size());
    // Chunks along the second dimension that do not divide it; and an element of two bytes.
    contents.model.insert("long", test::pattern({3, 1500, 1000}, 7));
    contents.model.insert("half", Tensor::full({300, 300}, 1.5, DType::f16));
    CheckpointWriter(Compression::deflate).save(group, folder / "a.h5", contents);
  });
  EXPECT_EQ(test::run_python(folder, snippet("reference/checkpoint_format.md") + R"(
import numpy as np
state = load("a.h5")
def same(name, shape, first):
    assert state[name].shape == shape and state[name].dtype == np.float32, name
    assert (state[name].ravel() == first + np.arange(np.prod(shape), dtype=np.float32)).all(), name
same("model/fc.weight", (1200, 1000), 2)
same("model/long", (3, 1500, 1000), 7)
same("model/conv1.weight", (10, 1, 5, 5), 0)
assert state["model/half"].dtype == np.float16 and (state["model/half"] == 1.5).all()
assert state["deck"] == "[train]\nepochs = 2\n"
file = h5py.File("a.h5")
for name, chunks in {"fc.weight": (600, 1000), "long": (1, 750, 1000), "half": (300, 300)}.items():
    data = file["model"][name]
    assert (data.compression, data.shuffle, data.chunks) == ("gzip", True, chunks), (name, data.chunks)
assert file["model/conv1.weight"].compression is None and file["model/table"].chunks is None
assert file.attrs["lockstep_format"] == 4
import os
assert os.path.getsize("a.h5") < 0.7 * (1200000 + 4500000) * 4
)"),
            0);
}

/// numpy's own types where they exist; bf16 widens to float32.
TEST_F(H5py, NarrowTypesComeAsNumpysOrWiden) {
  const auto folder = test::scratch("h5py-types");
  const auto of_bytes = [](const std::vector<std::uint8_t>& bytes, DType dtype) {
    const auto raw = Tensor::from(bytes, {static_cast<std::int64_t>(bytes.size())});
    return Tensor::over(raw.storage(), 0,
                        {static_cast<std::int64_t>(bytes.size() / size_of(dtype))}, dtype);
  };
  run_ranks_as_threads(1, [&](ProcessGroup& group) {
    CheckpointContents contents;
    contents.model.insert("f16", of_bytes({0x00, 0x3E, 0x00, 0xBE}, DType::f16));
    contents.model.insert("bf16", of_bytes({0xC0, 0x3F, 0xC0, 0xBF}, DType::bf16));
    contents.model.insert("bool", of_bytes({1, 0}, DType::boolean));
    contents.model.insert("u8", of_bytes({1, 255}, DType::u8));
    contents.model.insert("f64", Tensor::full({2}, 0.1, DType::f64));
    contents.model.insert("i32", Tensor::full({2}, -7, DType::i32));
    CheckpointWriter().save(group, folder / "a.h5", contents);
    test::expect_same_bits(load_checkpoint(folder / "a.h5").model, contents.model);
  });
  EXPECT_EQ(test::run_python(folder, R"(
import h5py
m = {n: d[()] for n, d in h5py.File("a.h5")["model"].items()}
assert m["f16"].dtype == "float16" and list(m["f16"]) == [1.5, -1.5]
assert m["bf16"].dtype == "float32" and list(m["bf16"]) == [1.5, -1.5]
assert m["bool"].dtype == "bool" and list(m["bool"]) == [True, False]
assert m["u8"].dtype == "uint8" and list(m["u8"]) == [1, 255]
assert m["f64"].dtype == "float64" and list(m["f64"]) == [0.1, 0.1]
assert m["i32"].dtype == "int32" and list(m["i32"]) == [-7, -7]
)"),
            0);
}

}  // namespace
}  // namespace lockstep
