"""AdamW as DeepSpeed applies it, written out: global-norm clipping, decoupled
decay on every parameter, bias correction, and its dynamic loss scale."""

import math

import torch

LEARNING_RATE = 1e-3
BETAS = (0.9, 0.999)
EPSILON = 1e-8
WEIGHT_DECAY = 0.01
CLIP = 1.0

SETTINGS = {
    "optimizer": "AdamW",
    "lr": LEARNING_RATE,
    "betas": list(BETAS),
    "eps": EPSILON,
    "weight_decay": WEIGHT_DECAY,
    "decay_on": "all parameters",
    "gradient_clipping": CLIP,
    "clip_coefficient": "min(1, clip / (norm + 1e-6))",
    "schedule": "constant",
}


class AdamW:
    """Holds the moments of a list of parameters, in the parameters' type."""

    def __init__(self, parameters):
        self.parameters = parameters
        self.first = [torch.zeros_like(p) for p in parameters]
        self.second = [torch.zeros_like(p) for p in parameters]
        self.steps = 0

    @torch.no_grad()
    def step(self, gradients):
        """Clips the gradients by their global norm and updates. Returns the
        norm before clipping."""
        norm = torch.stack([g.norm() for g in gradients]).norm()
        coefficient = (CLIP / (norm + 1e-6)).clamp(max=1.0)
        self.steps += 1
        step_size = LEARNING_RATE / (1 - BETAS[0] ** self.steps)
        root = math.sqrt(1 - BETAS[1] ** self.steps)
        for p, g, m, v in zip(
            self.parameters, gradients, self.first, self.second
        ):
            g = g * coefficient
            m.mul_(BETAS[0]).add_(g, alpha=1 - BETAS[0])
            v.mul_(BETAS[1]).addcmul_(g, g, value=1 - BETAS[1])
            p.mul_(1 - LEARNING_RATE * WEIGHT_DECAY)
            p.addcdiv_(m, v.sqrt() / root + EPSILON, value=-step_size)
        return norm.item()


class LossScale:
    """ZeRO's dynamic loss scale: an overflow first uses up the hysteresis,
    then halves the scale; `window` good steps in a row double it."""

    INITIAL = 2.0**16
    WINDOW = 1000
    HYSTERESIS = 2
    MINIMUM = 1.0

    def __init__(self):
        self.scale = self.INITIAL
        self.patience = self.HYSTERESIS
        self.iteration = 0
        self.last_overflow = -1

    def update(self, overflow):
        if overflow:
            if self.patience == 1:
                if self.scale == self.MINIMUM:
                    raise RuntimeError("loss scale at its minimum")
                self.scale = max(self.scale / 2, self.MINIMUM)
            else:
                self.patience -= 1
            self.last_overflow = self.iteration
        else:
            good = self.iteration - self.last_overflow - 1
            if good > 0 and good % self.WINDOW == 0:
                self.scale *= 2
                self.patience = self.HYSTERESIS
        self.iteration += 1
