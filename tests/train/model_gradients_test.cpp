#include <lockstep/train/task/model_gradients.hpp>

#include <gtest/gtest.h>

#include <lockstep/autograd/node.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/nn/sequential.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>
#include <lockstep/train/task/classification.hpp>
#include <lockstep/train/task/task.hpp>

namespace lockstep::train {
namespace {

Deck deck_for(const std::string& model) {
  return Deck::parse("[data]\nkind = \"synthetic\"\n", "gradients",
                     {"model.kind=\"" + model + "\"", "model.hidden=[24]", "model.width=12",
                      "model.depth=2", "data.synthetic_image_size=16"});
}

class EveryModel : public testing::TestWithParam<const char*> {};

TEST_P(EveryModel, HasRightGradients) {
  auto deck = deck_for(GetParam());
  const auto result = check_model_gradients(Classification(deck), 1);
  EXPECT_TRUE(result.ok) << result.table;
}

INSTANTIATE_TEST_SUITE_P(Zoo, EveryModel, testing::Values("convnet", "mlp", "transformer"));

/// The identity, with a wrong backward in one precision.
class WrongNode : public PooledNode<WrongNode> {
 public:
  void backward(const Tensor& grad_output) override {
    const auto x = grad_target(0);
    if (!x.accumulate) x.tensor.zero();
    add_scaled(grad_output, 1.01, x.tensor);
  }
  [[nodiscard]] const char* name() const noexcept override { return "wrong"; }
};

class Wrong : public nn::Module {
 public:
  explicit Wrong(DType dtype) : dtype_(dtype) {}
  Variable forward(const Variable& x) override {
    return x.data().dtype() == dtype_ ? record<WrongNode>(x.data().clone(), {&x}) : x;
  }

 private:
  DType dtype_;
};

class WrongTask : public Classification {
 public:
  WrongTask(Deck& deck, DType dtype) : Classification(deck), dtype_(dtype) {}
  [[nodiscard]] std::shared_ptr<nn::Module> make_model() const override {
    auto model = std::make_shared<nn::Sequential>();
    model->push_back("net", Classification::make_model());
    model->push_back("wrong", std::make_shared<Wrong>(dtype_));
    return model;
  }

 private:
  DType dtype_;
};

TEST(CheckModelGradients, FindsAWrongFormula) {
  auto deck = deck_for("mlp");
  const auto result = check_model_gradients(WrongTask(deck, DType::f64), 1);
  EXPECT_FALSE(result.ok);
  EXPECT_NE(result.table.find("net.fc1.weight"), std::string::npos);
  EXPECT_NE(result.table.find(" !"), std::string::npos) << result.table;
}

TEST(CheckModelGradients, FindsAKernelThatIsWrongInF32Only) {
  auto deck = deck_for("mlp");
  EXPECT_FALSE(check_model_gradients(WrongTask(deck, DType::f32), 1).ok);
}

}  // namespace
}  // namespace lockstep::train
