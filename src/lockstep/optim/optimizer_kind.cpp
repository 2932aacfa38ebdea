#include <lockstep/optim/optimizer_kind.hpp>

#include <lockstep/optim/adadelta.hpp>
#include <lockstep/optim/adagrad.hpp>
#include <lockstep/optim/adam.hpp>
#include <lockstep/optim/adamax.hpp>
#include <lockstep/optim/adan.hpp>
#include <lockstep/optim/asgd.hpp>
#include <lockstep/optim/layer_wise.hpp>
#include <lockstep/optim/lion.hpp>
#include <lockstep/optim/nadam.hpp>
#include <lockstep/optim/radam.hpp>
#include <lockstep/optim/rmsprop.hpp>
#include <lockstep/optim/sgd.hpp>

namespace lockstep::optim {

OptimizerKinds& optimizer_kinds() {
  // In the order of the reference. The first is the default.
  static OptimizerKinds kinds([](OptimizerKinds& own) {
    add_optimizer<SGD, SgdOptions>(own, "sgd", "torch.optim.SGD");
    add_optimizer<Adam, AdamOptions>(own, "adam", "torch.optim.Adam");
    add_optimizer<AdamW, AdamWOptions>(own, "adamw", "torch.optim.AdamW");
    add_optimizer<LARS, LarsOptions>(own, "lars", "You, Gitman, Ginsburg 2017 (arXiv:1708.03888)");
    add_optimizer<LAMB, LambOptions>(own, "lamb", "You et al. 2020 (arXiv:1904.00962)");
    add_optimizer<RMSprop, RmspropOptions>(own, "rmsprop", "torch.optim.RMSprop");
    add_optimizer<Adagrad, AdagradOptions>(own, "adagrad", "torch.optim.Adagrad");
    add_optimizer<Adadelta, AdadeltaOptions>(own, "adadelta", "torch.optim.Adadelta");
    add_optimizer<Adamax, AdamaxOptions>(own, "adamax", "torch.optim.Adamax");
    add_optimizer<NAdam, NAdamOptions>(own, "nadam", "torch.optim.NAdam");
    add_optimizer<RAdam, RAdamOptions>(own, "radam", "torch.optim.RAdam");
    add_optimizer<ASGD, AsgdOptions>(own, "asgd", "torch.optim.ASGD");
    add_optimizer<Lion, LionOptions>(own, "lion", "Chen et al. 2023 (arXiv:2302.06675)");
    add_optimizer<Adan, AdanOptions>(own, "adan", "Xie et al. 2022 (arXiv:2208.06677)");
  });
  return kinds;
}

}  // namespace lockstep::optim
