// Files of weights written and read by other programs.
#include <gtest/gtest.h>
#include <hdf5.h>

#include <fmt/format.h>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include <checkpoint/python.hpp>
#include <checkpoint/sample.hpp>
#include <support/message_of.hpp>

#include <lockstep/base/clock.hpp>
#include <lockstep/checkpoint/compare.hpp>
#include <lockstep/checkpoint/inspect.hpp>
#include <lockstep/checkpoint/weights/hugging_face.hpp>
#include <lockstep/checkpoint/weights/safetensors.hpp>
#include <lockstep/checkpoint/weights/weights.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

StateDict of_all_types() {
  StateDict state;
  state.insert("one.byte", Tensor::from(std::vector<std::uint8_t>{1, 2, 255}, {3}));
  state.insert("layer1.0.weight", test::pattern({4, 3}, 7));
  state.insert("f64", Tensor::full({2}, 0.1, DType::f64));
  state.insert("empty", Tensor::empty({0, 3}));
  state.insert("a number", Tensor::full({}, -5.0, DType::i64));
  for (const DType dtype : {DType::f16, DType::bf16, DType::i32, DType::boolean}) {
    state.insert(std::string(name_of(dtype)), Tensor::full({5}, 1.0, dtype));
  }
  return state;
}

void write(const fs::path& path, const std::string& bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}
std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
std::string with_length(const std::string& text, const std::string& data) {
  const std::uint64_t length = text.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + text + data;
}

TEST(Safetensors, ReturnTheWrittenTensors) {
  const auto folder = test::scratch("safetensors");
  const Safetensors written{.tensors = of_all_types(),
                            .metadata = {{"step", "12"}, {"deck", "[run]\n\"quoted\" = 'é'"}}};
  write_safetensors(folder / "a.safetensors", written);
  const auto found = read_safetensors(folder / "a.safetensors");
  EXPECT_EQ(found.metadata, written.metadata);
  ASSERT_EQ(found.tensors.size(), written.tensors.size());
  for (const auto& [name, tensor, placement] : written.tensors) {
    const Tensor& other = found.tensors.at(name);
    EXPECT_EQ(other.shape(), tensor.shape()) << name;
    EXPECT_EQ(other.dtype(), tensor.dtype()) << name;
    EXPECT_EQ(std::memcmp(other.data(), tensor.data(), tensor.bytes()), 0) << name;
  }
}

TEST(Safetensors, OfADeviceAreWrittenAsThoseOfTheHost) {
  const auto folder = test::scratch("safetensors-device");
  StateDict there;
  for (const auto& entry : of_all_types())
    there.insert(entry.name, entry.tensor.to(Device{DeviceType::sim, 0}));
  write_safetensors(folder / "host.safetensors", {.tensors = of_all_types()});
  write_safetensors(folder / "sim.safetensors", {.tensors = there});
  EXPECT_EQ(read(folder / "sim.safetensors"), read(folder / "host.safetensors"));
}

TEST(HuggingFace, TakesAndGivesWeightsOfADeviceAsThoseOfTheHost) {
  StateDict here, there;
  here.insert("wte.weight", test::pattern({5, 2}, 1));
  here.insert("h.0.attn.c_attn.weight", test::pattern({6, 2}, 2));
  here.insert("h.0.attn.c_attn.bias", test::pattern({6}, 3));
  for (const auto& entry : here)
    there.insert(entry.name, entry.tensor.to(Device{DeviceType::sim, 0}));
  const StateDict expected = to_hugging_face_gpt2(here), found = to_hugging_face_gpt2(there);
  StateDict tied;
  for (const auto& entry : found) {
    EXPECT_EQ(entry.tensor.to_vector<float>(), expected.at(entry.name).to_vector<float>());
    tied.insert(entry.name, entry.tensor.to(Device{DeviceType::sim, 0}));
  }
  tied.insert("lm_head.weight", tied.at("transformer.wte.weight"));
  const StateDict back = from_hugging_face_gpt2(tied);
  for (const auto& entry : here) {
    EXPECT_EQ(back.at(entry.name).device(), Device{});
    EXPECT_EQ(back.at(entry.name).to_vector<float>(), entry.tensor.to_vector<float>());
  }
}

TEST(Safetensors, OfOtherWritersAreRead) {
  const auto folder = test::scratch("safetensors-others");
  const float numbers[] = {1.5F, -2.0F};
  std::string data(sizeof(numbers), '\0');
  std::memcpy(data.data(), numbers, sizeof(numbers));
  // In the order and with the padding of its own library.
  write(folder / "b.safetensors",
        with_length(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}    )", data));
  const auto found = read_safetensors(folder / "b.safetensors");
  EXPECT_EQ(found.tensors.at("w").to_vector<float>(), (std::vector<float>{1.5F, -2.0F}));
  EXPECT_TRUE(found.metadata.empty());
}

TEST(Safetensors, ThatAreDamagedAreRefusedInWords) {
  const auto folder = test::scratch("safetensors-damaged");
  const auto refusal = [&](const std::string& bytes) {
    write(folder / "bad.safetensors", bytes);
    return test::message_of<CheckpointError>(
        [&] { static_cast<void>(read_safetensors(folder / "bad.safetensors")); });
  };
  const auto entry = [](const std::string& dtype, const std::string& shape,
                        const std::string& offsets) {
    return R"({"w":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" +
           offsets + "}}";
  };
  const std::string data(8, 'x');
  const std::string no_text = "is not a safetensors file";
  constexpr std::size_t deep = 100'000;
  const std::string nested = std::string(deep, '[') + std::string(deep, ']');
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", no_text},
      {"abc", no_text},
      {std::string(8, '\xff') + "{}", no_text},
      {with_length("[1, 2]", ""), "no JSON object"},
      {with_length("{\"w\": ", ""), "no JSON object"},
      {with_length(entry("F8", "[8]", "[0,8]"), data), "tensor w is of type F8"},
      {with_length(entry("F32", "[3]", "[0,8]"), data), "has 8 bytes, and needs 12"},
      {with_length(entry("F32", "[-2]", "[0,8]"), data), "not a whole number"},
      {with_length(entry("F32", "[4294967296,4294967296,4294967296]", "[0,8]"), data),
       "more elements than a tensor can have"},
      {with_length(entry("F32", "[18446744073709551615]", "[0,8]"), data),
       "has an impossible size"},
      {with_length(entry("F32", "[2]", "[4,12]"), data + data), "begins at byte 4"},
      {with_length(entry("F32", "[2]", "[0,8]"), data + "more"), "have 8 bytes, the file 12"},
      {with_length(entry("F32", "[2]", "[0,8]"), "less"), "have 8 bytes, the file 4"},
      {with_length(R"({"w":{"dtype":"F32"}})", ""), "tensor w"},
      {with_length(R"({"w":7})", ""), "tensor w"},
      {with_length(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                   R"("w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
                   data),
       "the name w occurs twice"},
      {with_length(R"({"__metadata__":{"step":"1","step":"2"}})", ""),
       "the name step occurs twice"},
      {with_length(R"({"__metadata__":)" + nested + "}", ""), "nested too deeply"},
      {with_length(R"({"__metadata__":{"a":)" + nested + "}}", ""), "nested too deeply"},
      {with_length(R"({"w":)" + nested + "}", ""), "nested too deeply"},
      {with_length(nested, ""), "no JSON object"}};
  for (const auto& [bytes, words] : cases) {
    const std::string message = refusal(bytes);
    EXPECT_NE(message.find(words), std::string::npos) << words << "\n" << message;
    EXPECT_NE(message.find("bad.safetensors"), std::string::npos) << message;
  }
}

TEST(Safetensors, WithNamesThatTheFormatCannotHoldAreNotWritten) {
  const fs::path file = test::scratch("safetensors-names") / "a.safetensors";
  const auto refusal = [&](const Safetensors& contents) {
    return test::message_of<CheckpointError>([&] { write_safetensors(file, contents); });
  };
  const auto of_name = [](const std::string& name) {
    Safetensors contents;
    contents.tensors.insert(name, Tensor::full({1}, 1.0));
    return contents;
  };
  const std::string begin = file.string() + " was not written: ";
  EXPECT_TRUE(refusal(of_name("__metadata__"))
                  .starts_with(begin + "tensor __metadata__ has the name of the format's own"));
  EXPECT_TRUE(refusal(of_name("caf\xe9")).starts_with(begin + "tensor caf\xe9 has a name that is"));
  EXPECT_TRUE(refusal({.tensors = {}, .metadata = {{"deck", "caf\xe9"}}})
                  .starts_with(begin + "the metadata deck are not UTF-8"));
  EXPECT_FALSE(fs::exists(file));
}

TEST(Safetensors, OfManyNamesAreReadInNoTime) {
  const auto folder = test::scratch("safetensors-many");
  std::string text = R"({"__metadata__":{"format":"pt")";
  constexpr int many = 100'000;
  for (int i = 0; i < many; ++i) text += fmt::format(R"(,"key{}":"{}")", i, i);
  text += '}';
  for (int i = 0; i < many; ++i)
    text += fmt::format(R"(,"w{}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})", i);
  write(folder / "many.safetensors", with_length(text + '}', ""));
  const auto begun = Clock::now();
  const auto found = read_safetensors(folder / "many.safetensors");
  EXPECT_EQ(found.tensors.size(), 100'000U);
  EXPECT_EQ(found.metadata.size(), 100'001U);
  EXPECT_LT(seconds_since(begun), 20.0);  // takes minutes if compared one by one
}

TEST(Safetensors, CutOffAnywhereAreRefused) {
  const auto folder = test::scratch("safetensors-cut");
  write_safetensors(folder / "a.safetensors", {.tensors = of_all_types(), .metadata = {}});
  const std::string whole = read(folder / "a.safetensors");
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    write(folder / "cut.safetensors", whole.substr(0, bytes));
    EXPECT_THROW(static_cast<void>(read_safetensors(folder / "cut.safetensors")), CheckpointError)
        << bytes << " of " << whole.size();
  }
}

TEST(Inspection, ListsNoMoreTensorsThanAnybodyReads) {
  const auto folder = test::scratch("many-tensors");
  fs::create_directories(folder);
  CheckpointContents contents;
  for (int i = 0; i < 10'005; ++i)
    contents.model.insert(fmt::format("w{}", i), Tensor::full({1}, 1.0, DType::u8));
  write_weights(folder / "many.h5", contents, WeightsFormat::h5);
  const std::string text = inspect_checkpoint(folder / "many.h5").text;
  EXPECT_NE(text.find("/model/w9999 "), std::string::npos);
  EXPECT_EQ(text.find("/model/w10000 "), std::string::npos);
  EXPECT_NE(text.find("  ... 5 more\n  10005 tensors"), std::string::npos);
}

/// Puts a data set of this type and space into an HDF5 file; of no elements if `elements` is null.
void put(hid_t at, const char* name, hid_t type, hid_t space, const void* elements) {
  const hid_t dataset = H5Dcreate2(at, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  if (elements) H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, elements);
  H5Dclose(dataset);
}

/// The same of one dimension.
template <class T>
void put(hid_t at, const char* name, hid_t type, const std::vector<T>& elements) {
  const hsize_t size = elements.size();
  const hid_t space = H5Screate_simple(1, &size, nullptr);
  put(at, name, type, space, elements.data());
  H5Sclose(space);
}

/// h5py's type of bools, or another enumeration.
hid_t enumeration(hid_t of, const std::vector<std::string>& names) {
  const hid_t type = H5Tenum_create(of);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::int32_t value = static_cast<std::int32_t>(i);  // little-endian
    H5Tenum_insert(type, names[i].c_str(), &value);
  }
  return type;
}

class Weights : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_);
    contents_.model.insert("conv.weight", test::pattern({3, 2}, 1));
    contents_.model.insert("conv.bias", test::pattern({3}, 9));
    contents_.optimizer.insert("conv.weight/momentum_buffer", test::pattern({3, 2}, 4));
    contents_.train.step = 77;
    contents_.deck = "[train]\nepochs = 2\n";
  }
  void save(const fs::path& path) {
    run_ranks_as_threads(
        1, [&](ProcessGroup& group) { CheckpointWriter().save(group, path, contents_); });
  }
  /// A new HDF5 file in the folder, with what `fill` puts into it.
  template <class F>
  fs::path hdf5_file(const char* name, const F& fill) {
    const fs::path path = folder_ / name;
    const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    fill(file);
    H5Fclose(file);
    return path;
  }
  static std::string refusal_of(const fs::path& path) {
    return test::message_of<CheckpointError>([&] { static_cast<void>(read_weights(path)); });
  }
  fs::path folder_ = test::scratch("weights");
  CheckpointContents contents_;
};

TEST_F(Weights, ComeOutOfACheckpointAndGoBackIntoOne) {
  save(folder_ / "a.h5");
  for (const auto& [name, format] :
       {std::pair("b.safetensors", WeightsFormat::safetensors), {"b.h5", WeightsFormat::h5}}) {
    write_weights(folder_ / name, read_weights(folder_ / "a.h5"), format);
    const auto found = read_weights(folder_ / name);
    test::expect_same_bits(found.model, contents_.model);
    EXPECT_EQ(found.optimizer.size(), 0U);
    EXPECT_EQ(found.train.step, 77);
    EXPECT_EQ(found.deck, contents_.deck);
  }
  EXPECT_NO_THROW(verify_checkpoint(folder_ / "b.h5"));
}

TEST_F(Weights, OfAnyHdf5FileAreRead) {
  if (!test::python_has_h5py())
    GTEST_SKIP() << "python3 has no h5py or numpy (Debian: python3-h5py)";
  const int code = test::run_python(folder_, R"(
import h5py, numpy as np
with h5py.File("c.h5", "w") as f:
    f["conv1.weight"] = np.arange(6, dtype=np.float32).reshape(2, 3)
    f.create_dataset("layer1/0.bias", data=np.arange(1000, dtype=np.float64), chunks=True, compression="gzip")
    f["count"] = np.int64(7)
    f["half"] = np.float16([1.5])
with h5py.File("d.h5", "w") as f:
    f["fine"] = np.zeros(3)
    f["words"] = ["no", "numbers"]
)");
  ASSERT_EQ(code, 0);
  const auto found = read_weights(folder_ / "c.h5").model;
  EXPECT_EQ(found.size(), 4U);
  EXPECT_EQ(found.at("conv1.weight").to_vector<float>(), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(found.at("layer1.0.bias").to_vector<double>().at(999), 999.0);
  EXPECT_EQ(found.at("count").to_vector<std::int64_t>(), std::vector<std::int64_t>{7});
  EXPECT_EQ(found.at("half").to_vector<double>(), std::vector<double>{1.5});
  const auto refusal =
      test::message_of<CheckpointError>([&] { static_cast<void>(read_weights(folder_ / "d.h5")); });
  EXPECT_NE(refusal.find("/words is not an array of numbers"), std::string::npos) << refusal;
}

// HDF5 reads them as fill values, and an external file as whatever it holds.
TEST_F(Weights, OfAnHdf5FileThatAreNotInItAreRefused) {
  const std::string file = folder_ / "e.h5", raw = folder_ / "raw";
  std::ofstream(raw) << std::string(64, 'x');
  for (const bool external : {false, true}) {
    const hid_t created = H5Fcreate(file.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    const hsize_t rows = 8, chunk = 4;
    if (external) {
      H5Pset_external(creation, raw.c_str(), 0, 64);
    } else {
      H5Pset_chunk(creation, 1, &chunk);
    }
    const hid_t space = H5Screate_simple(1, &rows, nullptr);
    H5Dclose(H5Dcreate2(created, "w", H5T_IEEE_F64LE, space, H5P_DEFAULT, creation, H5P_DEFAULT));
    H5Sclose(space);
    H5Pclose(creation);
    H5Fclose(created);
    const auto refusal =
        test::message_of<CheckpointError>([&] { static_cast<void>(read_weights(file)); });
    const std::string part = external ? "/w has its elements in another file, " + raw
                                      : "/w has 0 of 2 chunks: the others were never written";
    EXPECT_NE(refusal.find(part), std::string::npos) << refusal;
  }
}

// h5py: f["lm_head.weight"] = f["wte.weight"], f["soft"] = h5py.SoftLink("/wte.weight").
TEST_F(Weights, OfAnHdf5FileAreTensorsUnderEveryNameThatLinksGiveThem) {
  const fs::path file = hdf5_file("links.h5", [](hid_t to) {
    put(to, "wte.weight", H5T_NATIVE_FLOAT, std::vector<float>{1, 2});
    H5Lcreate_hard(to, "wte.weight", to, "lm_head.weight", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/wte.weight", to, "soft", H5P_DEFAULT, H5P_DEFAULT);
    const hid_t group = H5Gcreate2(to, "encoder", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    put(group, "bias", H5T_NATIVE_FLOAT, std::vector<float>{3});
    H5Lcreate_hard(to, "/", group, "up", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/encoder", group, "itself", H5P_DEFAULT, H5P_DEFAULT);
    H5Gclose(group);
    H5Lcreate_hard(to, "encoder", to, "decoder", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("encoder", to, "coder", H5P_DEFAULT, H5P_DEFAULT);
  });
  const StateDict found = read_weights(file).model;
  EXPECT_EQ(found.size(), 6U);
  for (const char* name : {"wte.weight", "lm_head.weight", "soft"})
    EXPECT_EQ(found.at(name).to_vector<float>(), (std::vector<float>{1, 2})) << name;
  for (const char* name : {"encoder.bias", "decoder.bias", "coder.bias"})
    EXPECT_EQ(found.at(name).to_vector<float>(), std::vector<float>{3}) << name;
}

TEST_F(Weights, OfAnHdf5FileWhoseLinksLeadOutOfItOrToNothingAreRefused) {
  const fs::path other = hdf5_file(
      "other.h5", [](hid_t to) { put(to, "w", H5T_NATIVE_FLOAT, std::vector<float>{1}); });
  const auto refusal = [&](const char* name, const auto& link) {
    return refusal_of(hdf5_file("out.h5", [&](hid_t to) {
      H5Gclose(H5Gcreate2(to, "group", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
      link(to, name);
    }));
  };
  const auto external = [&](hid_t to, const char* name) {
    H5Lcreate_external(other.c_str(), "/w", to, name, H5P_DEFAULT, H5P_DEFAULT);
  };
  const auto dangling = [](hid_t to, const char* name) {
    H5Lcreate_soft("/gone", to, name, H5P_DEFAULT, H5P_DEFAULT);
  };
  const auto of_itself = [](hid_t to, const char* name) {
    H5Lcreate_soft((std::string("/") + name).c_str(), to, name, H5P_DEFAULT, H5P_DEFAULT);
  };
  for (const auto& message : {refusal("w", external), refusal("group/w", external)})
    EXPECT_NE(message.find("w is a link to another file"), std::string::npos) << message;
  for (const auto& message : {refusal("group/w", dangling), refusal("group/w", of_itself)})
    EXPECT_NE(message.find("/group/w is a link to nothing in"), std::string::npos) << message;
}

TEST_F(Weights, OfAnHdf5FileWithTooManyGroupsWithinEachOtherAreRefused) {
  const auto message = refusal_of(hdf5_file("deep.h5", [](hid_t to) {
    std::string name;
    for (int i = 0; i < 200; ++i) {
      name += "/g";
      H5Gclose(H5Gcreate2(to, name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    }
  }));
  EXPECT_NE(message.find("/g/g is in more than 100 groups"), std::string::npos) << message;
}

TEST_F(Weights, OfAnHdf5FileWithoutAShapeAreRefused) {
  const auto message = refusal_of(hdf5_file("null.h5", [](hid_t to) {
    const hid_t space = H5Screate(H5S_NULL);
    put(to, "n", H5T_NATIVE_FLOAT, space, nullptr);
    H5Sclose(space);
  }));
  EXPECT_NE(message.find(": /n has no shape and no elements (a null data space"), std::string::npos)
      << message;
}

TEST_F(Weights, OfAnHdf5FileAreBooleansWhereH5pyWroteThem) {
  using Bytes = std::vector<std::int8_t>;
  const auto file = [&](hid_t type, const auto& elements) {
    return hdf5_file("bool.h5", [&](hid_t to) {
      put(to, "mask", type, elements);
      H5Tclose(type);
    });
  };
  const auto bools = [] { return enumeration(H5T_STD_I8LE, {"FALSE", "TRUE"}); };
  const Tensor mask = read_weights(file(bools(), Bytes{1, 0, 1})).model.at("mask");
  EXPECT_EQ(mask.dtype(), DType::boolean);
  const auto* bytes = static_cast<const std::uint8_t*>(mask.data());
  EXPECT_EQ(std::vector<std::uint8_t>(bytes, bytes + mask.numel()),
            (std::vector<std::uint8_t>{1, 0, 1}));

  const auto wrong = refusal_of(file(bools(), Bytes{1, 0, 7}));
  EXPECT_NE(wrong.find("/mask has 7 as element 2, but a boolean is 0 or 1"), std::string::npos)
      << wrong;
  for (const auto& other :
       {refusal_of(file(enumeration(H5T_STD_I8LE, {"RED", "BLUE"}), Bytes{0, 1})),
        refusal_of(file(enumeration(H5T_STD_I32LE, {"FALSE", "TRUE"}),
                        std::vector<std::int32_t>{0, 1}))}) {
    EXPECT_NE(other.find("/mask is not an array of numbers"), std::string::npos) << other;
  }
}

// torch.save writes a zip archive, before PyTorch 1.6 a pickle.
TEST_F(Weights, OfTorchSaveAreRefusedWithTheCallThatWritesReadableOnes) {
  const std::string file = folder_ / "mine.pt";
  for (const char* begin : {"PK\x03\x04", "\x80\x02"}) {
    std::ofstream(file, std::ios::binary) << begin << std::string(100, '{');
    const auto refusal =
        test::message_of<CheckpointError>([&] { static_cast<void>(read_weights(file)); });
    EXPECT_TRUE(refusal.starts_with(file + " is a file of torch.save")) << refusal;
    EXPECT_NE(refusal.find("safetensors.torch.save_file"), std::string::npos) << refusal;
  }
}

TEST_F(Weights, ThatDifferAreNamedWithHowMuch) {
  save(folder_ / "a.h5");
  save(folder_ / "b.h5");
  EXPECT_EQ(compare_checkpoints(folder_ / "a.h5", folder_ / "b.h5", 0).code, ExitCode::done);

  static_cast<float*>(contents_.model.at("conv.bias").data())[1] += 0.25F;
  contents_.model.insert("more", test::pattern({1}));
  contents_.train.step = 78;
  save(folder_ / "b.h5");
  const auto report = compare_checkpoints(folder_ / "a.h5", folder_ / "b.h5", 0);
  EXPECT_EQ(report.code, ExitCode::failure);
  for (const char* line :
       {"/model/conv.bias: 1 of 3 elements differ, by at most 0.25 (largest element 11)",
        "/model/more: is only in the second", "/train/step: is 77 and 78"}) {
    EXPECT_NE(report.text.find(line), std::string::npos) << line << "\n" << report.text;
  }
  EXPECT_EQ(report.text.find("conv.weight"), std::string::npos) << report.text;
  const auto within = compare_checkpoints(folder_ / "a.h5", folder_ / "b.h5", 0.5);
  EXPECT_EQ(within.text.find("conv.bias"), std::string::npos) << within.text;
  EXPECT_EQ(compare_checkpoints(folder_ / "a.h5", folder_ / "none.h5", 0).code,
            ExitCode::checkpoint);
}

}  // namespace
}  // namespace lockstep
