# The image `nova`: everything of a run with a real Nova, which is the replayer's with Nova, Placement and PostgreSQL beside
# it. Made by scripts/nova-image, or by Compose once there is an image of the replayer. Nova's packages are those of
# requirements-nova.lock; this project is beside them without what it needs elsewhere, as an operator puts it beside Nova.
# On a base that is not Debian's, scripts/nova-image adds this machine's PostgreSQL.
ARG REPLAYER=balancer-emulator/replayer:latest
FROM ${REPLAYER}
USER 0:0
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
COPY requirements-nova.lock /tmp/
RUN if command -v apt-get >/dev/null; then \
      mkdir -p /etc/postgresql-common && echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf \
      && apt-get update -qq && apt-get install -qq -y --no-install-recommends postgresql >/dev/null \
      && rm -rf /var/lib/apt/lists/*; \
    fi \
 && python -m venv /opt/nova \
 && /opt/nova/bin/pip install -q --require-hashes -r /tmp/requirements-nova.lock \
 && /opt/nova/bin/pip uninstall -q -y hatchling editables \
 && cp -a /opt/venv/lib/python3*/site-packages/balancer /opt/venv/lib/python3*/site-packages/emulator \
      /opt/venv/lib/python3*/site-packages/balancer_emulator-*.dist-info /opt/nova/lib/python3*/site-packages/ \
 && rm /tmp/requirements-nova.lock
ENV BALANCER_NOVA_ENVIRONMENT=/opt/nova
ENTRYPOINT ["python", "-m", "emulator.live.containers.remote_fleet", "nova"]
