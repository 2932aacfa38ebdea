#include <lockstep/tensor/tensor.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>
#include <lockstep/tensor/view.hpp>
#include <support/message_of.hpp>

namespace lockstep {
namespace {

const std::vector<DType> all_dtypes{DType::f32, DType::f64, DType::bf16, DType::f16,
                                    DType::i32, DType::i64, DType::u8,   DType::boolean};

bool mentions(const std::string& message, const std::string& part) {
  return message.find(part) != std::string::npos;
}

TEST(Tensor, FromAndToVectorKeepTheElements) {
  const std::vector<std::int64_t> values{1, -2, std::int64_t{1} << 60, 4, 5, 6};
  const Tensor t = Tensor::from(values, {2, 3});
  EXPECT_EQ(t.to_vector<std::int64_t>(), values);
  EXPECT_EQ(t.dtype(), DType::i64);
  EXPECT_EQ(t.bytes(), 48U);
  EXPECT_EQ(describe(t), "i64[2, 3] on host");
}

TEST(Tensor, UndefinedIsReported) {
  EXPECT_FALSE(Tensor().defined());
  EXPECT_EQ(describe(Tensor()), "an undefined tensor");
}

TEST(Tensor, ElementsOfAnUndefinedOneThrow) {
  const Tensor nothing, there = Tensor::zeros({});
  EXPECT_THROW(static_cast<void>(nothing.item()), ShapeError);
  EXPECT_THROW(static_cast<void>(nothing.to_vector<float>()), ShapeError);
  EXPECT_THROW(static_cast<void>(nothing.clone()), ShapeError);
  EXPECT_THROW(nothing.zero(), ShapeError);
  EXPECT_THROW(nothing.copy_from(there), ShapeError);
  EXPECT_THROW(there.copy_from(nothing), ShapeError);
  const std::vector<float> one{1};
  EXPECT_THROW(nothing.copy_from_host(std::span<const float>(one)), ShapeError);
}

TEST(Tensor, IntegersAreFilledWithWhatTheyCanHold) {
  EXPECT_EQ(Tensor::full({}, 255, DType::u8).item(), 255);
  EXPECT_EQ(Tensor::full({}, -0x1p63, DType::i64).item(), -0x1p63);
  EXPECT_EQ(Tensor::full({}, -0x1p31, DType::i32).item(), -0x1p31);
  EXPECT_EQ(Tensor::full({}, 2.5, DType::i64).item(), 2);
  const auto refuse = [](double value, DType dtype) {
    EXPECT_THROW(static_cast<void>(Tensor::full({2}, value, dtype)), ShapeError) << value;
  };
  refuse(256, DType::u8);
  refuse(-1, DType::u8);
  refuse(0x1p31, DType::i32);
  refuse(0x1p63, DType::i64);
  refuse(HUGE_VAL, DType::i64);
  refuse(std::nan(""), DType::i32);
}

TEST(Tensor, ReshapeAndSliceShareStorage) {
  const Tensor t = Tensor::zeros({4, 3});
  t.reshape({2, 6}).fill(1);
  EXPECT_EQ(t.to_vector<float>(), std::vector<float>(12, 1.0F));
  t.slice(1, 3).fill(2);
  EXPECT_EQ(t.to_vector<float>(), (std::vector<float>{1, 1, 1, 2, 2, 2, 2, 2, 2, 1, 1, 1}));
  EXPECT_EQ(t.slice(1, 3).slice(1, 2).offset_bytes(), 24U);
  EXPECT_EQ(t.slice(2, 2).numel(), 0);
}

TEST(Tensor, CopyingAHandleSharesAndCloneDoesNot) {
  const Tensor t = Tensor::full({3}, 1);
  const Tensor same = t, copy = t.clone();
  t.fill(5);
  EXPECT_EQ(same.to_vector<float>(), std::vector<float>(3, 5.0F));
  EXPECT_EQ(copy.to_vector<float>(), std::vector<float>(3, 1.0F));
}

TEST(Tensor, ErrorsPrintBothShapes) {
  const Tensor t = Tensor::zeros({4, 3});
  const auto reshaped = test::message_of<ShapeError>([&] { static_cast<void>(t.reshape({5, 2})); });
  EXPECT_TRUE(mentions(reshaped, "[4, 3]") && mentions(reshaped, "[5, 2]")) << reshaped;
  const auto sliced = test::message_of<ShapeError>([&] { static_cast<void>(t.slice(2, 5)); });
  EXPECT_TRUE(mentions(sliced, "[4, 3]") && mentions(sliced, "[2, 5)")) << sliced;
  const auto copied = test::message_of<ShapeError>([&] { t.copy_from(Tensor::zeros({3, 4})); });
  EXPECT_TRUE(mentions(copied, "[4, 3]") && mentions(copied, "[3, 4]")) << copied;
  const auto read = test::message_of<ShapeError>([&] { static_cast<void>(t.to_vector<double>()); });
  EXPECT_TRUE(mentions(read, "f32[4, 3]") && mentions(read, "f64")) << read;
  const auto item = test::message_of<ShapeError>([&] { static_cast<void>(t.item()); });
  EXPECT_TRUE(mentions(item, "[4, 3]")) << item;
  EXPECT_TRUE(mentions(test::message_of<ShapeError>([] {
                         static_cast<void>(Tensor::from(std::vector<float>(3), {2, 2}));
                       }),
                       "[2, 2]"));
}

TEST(Tensor, ItemReadsEveryDtype) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64, DType::u8}) {
    EXPECT_EQ(Tensor::full({1, 1}, 7, dtype).item(), 7.0) << name_of(dtype);
    EXPECT_EQ(Tensor::full({}, 7, dtype).item(), 7.0) << name_of(dtype);
  }
  EXPECT_EQ(Tensor::full({1}, 1, DType::boolean).item(), 1.0);
}

TEST(Tensor, ToConvertsAsStaticCastDoes) {
  const Tensor t = Tensor::from(std::vector{-1.75, 0.0, 2.5}, {3});
  EXPECT_EQ(t.to(DType::i32).to_vector<std::int32_t>(), (std::vector<std::int32_t>{-1, 0, 2}));
  EXPECT_EQ(t.to(DType::f32).to_vector<float>(), (std::vector<float>{-1.75F, 0.0F, 2.5F}));
  EXPECT_EQ(t.to(DType::f64).storage(), t.storage());
}

TEST(Tensor, OverChecksThatItFitsTheStorage) {
  const auto storage = Storage::allocate(64);
  EXPECT_EQ(Tensor::over(storage, 32, {8}, DType::f32).numel(), 8);
  EXPECT_THROW(static_cast<void>(Tensor::over(storage, 48, {8}, DType::f32)), ShapeError);
  EXPECT_THROW(static_cast<void>(Tensor::over(storage, 2, {1}, DType::f32)), ShapeError);
}

TEST(Tensor, EmptyOnesCopyFillAndConvert) {
  const Tensor t = Tensor::zeros({0, 3});
  EXPECT_EQ(t.numel(), 0);
  t.fill(1);
  EXPECT_EQ(t.clone().to(DType::f64).to_vector<double>().size(), 0U);
}

TEST(Elementwise, AddScaledAndScaleComputeTheirFormulas) {
  const Tensor x = Tensor::from(std::vector{1.0, 2.0}, {2}), y = Tensor::full({2}, 10, DType::f64);
  add_scaled(x, 0.5, y);
  EXPECT_EQ(y.to_vector<double>(), (std::vector{10.5, 11.0}));
  scale(y, 2);
  EXPECT_EQ(y.to_vector<double>(), (std::vector{21.0, 22.0}));
  EXPECT_TRUE(mentions(
      test::message_of<ShapeError>([&] { add_scaled(Tensor::zeros({3}, DType::f64), 1, y); }),
      "[3]"));
}

TEST(View, ChecksDtypeAndDimensions) {
  using Space = HostExecutionSpace;
  const Tensor t = Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
  const auto v = view<Space, const float, 2>(t);
  EXPECT_EQ(v(1, 2), 6.0F);
  const auto wrong_type =
      test::message_of<ShapeError>([&] { static_cast<void>(view<Space, double, 2>(t)); });
  EXPECT_TRUE(mentions(wrong_type, "f64") && mentions(wrong_type, "f32[2, 3]")) << wrong_type;
  EXPECT_NE(test::message_of<ShapeError>([&] { static_cast<void>(view<Space, float, 3>(t)); }),
            "no ShapeError");
  EXPECT_NE(
      test::message_of<ShapeError>([&] { static_cast<void>(view<Space, float, 1>(Tensor())); }),
      "no ShapeError");
}

TEST(DType, HasTheSizeAndNameOfEachType) {
  std::size_t bytes = 0;
  std::string names;
  for (const DType dtype : all_dtypes) {
    bytes += size_of(dtype);
    names += std::string(name_of(dtype)) + " ";
  }
  EXPECT_EQ(bytes, 4U + 8 + 2 + 2 + 4 + 8 + 1 + 1);
  EXPECT_EQ(names, "f32 f64 bf16 f16 i32 i64 u8 bool ");
}

}  // namespace
}  // namespace lockstep
