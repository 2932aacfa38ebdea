// Every case of rnn.h5 through the layers, forward and backward, in f32 and f64. Sizes, attributes
// and parameters come from the file; a layer finds its parameters there by their names. Those of
// recurrent layers on devices, too.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include <support/golden_cases.hpp>
#include <support/gpu_stand_in.hpp>
#include <support/test_devices.hpp>

#include <lockstep/autograd/backward.hpp>
#include <lockstep/nn/device_guard.hpp>
#include <lockstep/nn/dtype_guard.hpp>
#include <lockstep/nn/layers/attention.hpp>
#include <lockstep/nn/layers/embedding.hpp>
#include <lockstep/nn/layers/recurrent.hpp>

namespace lockstep::nn {
namespace {

class RnnCase {
 public:
  RnnCase(const test::GoldenFile& file, std::string group, DType dtype, Device device = {})
      : file_(file),
        group_(std::move(group)),
        dtype_(dtype),
        device_(device),
        dtype_guard_(dtype),
        device_guard_(device) {}

  Variable input(const std::string& name) {
    if (!file_.has(group_ + "/" + name)) return {};
    const Variable variable(tensor(name), true);
    variables_.emplace_back(name, variable);
    return variable;
  }
  [[nodiscard]] Tensor tensor(const std::string& name) const {
    const Tensor t = file_.tensor(group_ + "/" + name);
    return (is_floating(t.dtype()) ? t.to(dtype_) : t).to(device_);
  }
  [[nodiscard]] bool has(const std::string& name) const { return file_.has(group_ + "/" + name); }
  [[nodiscard]] std::int64_t integer(const std::string& name) const {
    return static_cast<std::int64_t>(file_.number(group_, name));
  }
  [[nodiscard]] std::string text(const std::string& name) const { return file_.text(group_, name); }

  /// Gives the layer the file's parameters, whose gradients are then expected too.
  void load(Module& module) {
    StateDict state;
    for (const auto& p : module.named_parameters()) {
      std::string name = p.name;
      std::ranges::replace(name, '.', '_');
      state.insert(p.name, tensor(name));
      variables_.emplace_back(name, p.variable);
    }
    module.load_state_dict(state);
  }

  /// Outputs against the file, then the gradients for its upstream ones.
  void expect(const std::vector<std::pair<std::string, Variable>>& outputs) const {
    std::vector<Variable> roots;
    std::vector<Tensor> upstream;
    for (const auto& [name, output] : outputs) {
      expect(output.data(), name + "_f64");
      roots.push_back(output);
      upstream.push_back(tensor("grad_" + name));
    }
    backward(roots, upstream);
    for (const auto& [name, variable] : variables_) {
      ASSERT_TRUE(variable.grad().defined()) << group_ << " gives " << name << " no gradient";
      expect(variable.grad(), "grad_" + name + "_f64");
    }
  }

 private:
  void expect(const Tensor& y, const std::string& reference) const {
    const std::string path = group_ + "/" + reference;
    const double bound = dtype_ == DType::f32
                             ? file_.tolerance(path)
                             : 1e-12 * std::max(1.0, file_.number(path, "ref_max_abs"));
    EXPECT_EQ(y.device(), device_) << path;
    EXPECT_LE(test::max_difference(y, file_.tensor(path)), bound)
        << path << " in " << name_of(dtype_);
  }

  const test::GoldenFile& file_;
  std::string group_;
  DType dtype_;
  Device device_;
  DTypeGuard dtype_guard_;
  DeviceGuard device_guard_;
  std::vector<std::pair<std::string, Variable>> variables_;
};

void recurrent_case(RnnCase& c) {
  const std::string op = c.text("op");
  const RecurrentOptions options{.num_layers = c.integer("num_layers"),
                                 .bidirectional = c.integer("bidirectional") != 0};
  const std::int64_t hidden = c.integer("hidden_size");
  const Variable x = c.input("x"), h0 = c.input("h0"), c0 = c.input("c0");
  const std::int64_t width = x.shape()[2];
  if (op == "lstm") {
    LSTM lstm(width, hidden, options);
    c.load(lstm);
    const auto y = lstm.forward(x, h0, c0);
    c.expect({{"out", y.output}, {"h_n", y.h_n}, {"c_n", y.c_n}});
    return;
  }
  const auto check = [&](auto&& layer) {
    c.load(layer);
    const auto y = layer.forward(x, h0);
    c.expect({{"out", y.output}, {"h_n", y.h_n}});
  };
  if (op == "gru") return check(GRU(width, hidden, options));
  check(RNN(width, hidden, options, op == "rnn_relu" ? Nonlinearity::relu : Nonlinearity::tanh));
}

void embedding_bag_case(RnnCase& c) {
  const std::map<std::string, BagMode> modes{
      {"sum", BagMode::sum}, {"mean", BagMode::mean}, {"max", BagMode::max}};
  const Shape table = c.tensor("weight").shape();
  EmbeddingBag bag(table[0], table[1], modes.at(c.text("mode")));
  c.load(bag);
  const Variable y =
      bag.forward(c.tensor("input"), c.tensor("offsets"), c.input("per_sample_weights"));
  c.expect({{"out", y}});
}

void cross_attention_case(RnnCase& c) {
  const Variable query = c.input("query"), key = c.input("key"), value = c.input("value");
  MultiheadAttention attention(query.shape()[2], c.integer("num_heads"));
  c.load(attention);
  const Tensor mask =
      c.has("key_padding_mask") ? c.tensor("key_padding_mask").to(DType::boolean) : Tensor();
  c.expect({{"out", attention.forward(query, key, value, mask)}});
}

TEST(GoldenRnn, EveryCaseAgreesAndNothingOfTheFileIsLeftUnread) {
  const std::map<std::string, void (*)(RnnCase&)> checks{{"rnn_tanh", recurrent_case},
                                                         {"rnn_relu", recurrent_case},
                                                         {"gru", recurrent_case},
                                                         {"lstm", recurrent_case},
                                                         {"embedding_bag", embedding_bag_case},
                                                         {"cross_attention", cross_attention_case}};
  test::check_golden_cases<RnnCase>(test::GoldenFile("rnn.h5"), checks);
}

void expect_recurrent_cases_on(Device device) {
  const test::GoldenFile file("rnn.h5");
  int cases = 0;
  for (const auto& group : file.groups("")) {
    const std::string op = file.text(group, "op");
    if (op != "rnn_tanh" && op != "rnn_relu" && op != "gru" && op != "lstm") continue;
    for (const DType dtype : {DType::f32, DType::f64}) {
      SCOPED_TRACE(group + " in " + std::string(name_of(dtype)));
      RnnCase c(file, group, dtype, device);
      ASSERT_NO_THROW(recurrent_case(c));
      ++cases;
    }
  }
  EXPECT_GE(cases, 8);
}

class GoldenRnnOnDevice : public testing::TestWithParam<Device> {};

TEST_P(GoldenRnnOnDevice, EveryRecurrentCaseAgrees) { expect_recurrent_cases_on(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Devices, GoldenRnnOnDevice, testing::ValuesIn(test::devices_to_test()),
                         test::name_of_device_case);

TEST(GoldenRnn, EveryRecurrentCaseAgreesByTheKernelsOfAGpu) {
  const test::GpuStandIn gpu;
  const int runs = test::GpuStandIn::runs();
  expect_recurrent_cases_on({DeviceType::sim, 0});
  EXPECT_GT(test::GpuStandIn::runs(), runs);
}

}  // namespace
}  // namespace lockstep::nn
