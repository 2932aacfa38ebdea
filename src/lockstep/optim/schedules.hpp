#pragma once
// The kinds of schedules: the classes of torch.optim.lr_scheduler of these names, and the usual one
// of transformers. B is the base rate, k the finished units behind a warm-up.
#include <lockstep/optim/plateau.hpp>
#include <lockstep/optim/schedule_kind.hpp>
#include <lockstep/optim/schedules/constant.hpp>
#include <lockstep/optim/schedules/cosine.hpp>
#include <lockstep/optim/schedules/cosine_restarts.hpp>
#include <lockstep/optim/schedules/cyclic.hpp>
#include <lockstep/optim/schedules/exponential.hpp>
#include <lockstep/optim/schedules/multistep.hpp>
#include <lockstep/optim/schedules/one_cycle.hpp>
#include <lockstep/optim/schedules/polynomial.hpp>
#include <lockstep/optim/schedules/step.hpp>
#include <lockstep/optim/schedules/warmup_cosine.hpp>
